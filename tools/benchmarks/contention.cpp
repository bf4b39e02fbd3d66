// Transfers and sums that share links: how fast the contended machine is, and whether SimGrid says
// the same of the same flows over the same links.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/lower/lower.h"
#include "simulator/contention/contended_machine.h"
#include "simulator/cost/stage_costs.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/simgrid.h"

namespace tandem::benchmarks {

namespace {

using std::chrono::microseconds;

CostTable uneven_price_of(const Program& program) {
  StageCosts costs = uniform_costs(program.placement().stages(), {}, microseconds(80));
  std::int64_t part = 0;
  for (StageTimes& times : costs.stages) {
    times.forward = times.recompute = microseconds(1000 + 37 * part);
    times.backward = 2 * times.forward + microseconds(11);
    times.backward_input = times.forward;
    times.backward_weight = times.backward - times.forward;
    times.update = microseconds(50);
    times.reduce = microseconds(500);
    ++part;
  }
  costs.reduce_tied = microseconds(300);
  return price(program, cost_model(program.placement(), costs));
}

/// A network under construction: a link a name, for each key a flow.
class Builder {
 public:
  explicit Builder(const Program& program) : program_(program) {
    network_.flows.resize(program.cost_keys().size());
  }
  Network::LinkId link(std::string name, double bytes_per_second) {
    return network_.links.push_back({std::move(name), bytes_per_second});
  }
  /// A link a device: "NAME 0", "NAME 1", …
  std::vector<Network::LinkId> link_each(std::string_view name, double bytes_per_second) {
    std::vector<Network::LinkId> links;
    for (std::size_t i = 0; i < program_.placement().devices; ++i)
      links.push_back(link(fmt::format("{} {}", name, i), bytes_per_second));
    return links;
  }
  /// One flow for each key that moves data, made by `flow` of the key and its number.
  Network with(const std::function<Network::Flow(const CostKey&, std::size_t)>& flow) {
    for (const CostId id : ids(program_.cost_keys())) {
      const CostKey& key = program_.cost_keys()[id];
      if (!on_compute_lane(key.kind)) network_.flows[id] = {flow(key, index(id))};
    }
    return std::move(network_);
  }

 private:
  const Program& program_;
  Network network_;
};

/// Bytes that differ from key to key: about a tenth of a forward at 12 GB/s.
Bytes bytes_of(std::size_t key) { return 1'200'000 + 70'001 * static_cast<Bytes>(key % 11); }

constexpr double kGigabyte = 1e9;

using Links = std::vector<Network::LinkId>;

/// A link each way from each device, slower down than up.
Network private_links(const Program& program) {
  Builder builder(program);
  return builder.with([&](const CostKey& key, std::size_t id) {
    const double rate = (key.source < key.target ? 6.0 : 9.0) * kGigabyte;
    return Network::Flow{.bytes = bytes_of(id),
                         .latency = microseconds(5),
                         .links = {builder.link(fmt::format("own {}", id), rate)}};
  });
}

Network backbone(const Program& program) {
  Builder builder(program);
  const Network::LinkId shared = builder.link("backbone", 3 * kGigabyte);
  return builder.with([&](const CostKey&, std::size_t id) {
    return Network::Flow{.bytes = bytes_of(id), .links = {shared}};
  });
}

/// A backbone behind adapters of unlike rates, and a latency.
Network adapters_and_backbone(const Program& program) {
  Builder builder(program);
  const Network::LinkId shared = builder.link("backbone", 4 * kGigabyte);
  const auto in = builder.link_each("into", 2 * kGigabyte);
  Links out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.push_back(builder.link(fmt::format("out of {}", i),
                               (1.5 + 0.5 * static_cast<double>(i)) * kGigabyte));
  }
  return builder.with([&](const CostKey& key, std::size_t id) {
    return Network::Flow{.bytes = bytes_of(id),
                         .latency = microseconds(10),
                         .links = {out[index(key.source)], shared, in[index(key.target)]}};
  });
}

/// Nodes of two devices under one core: what leaves a node crosses its uplink, the core and the
/// other's downlink. Sums cross all of them.
Network tree(const Program& program) {
  Builder builder(program);
  const Network::LinkId core = builder.link("core", 2.5 * kGigabyte);
  Links up, down, inside;
  for (std::size_t i = 0; i <= program.placement().devices / 2u; ++i) {
    up.push_back(builder.link(fmt::format("up {}", i), 2 * kGigabyte));
    down.push_back(builder.link(fmt::format("down {}", i), 1.6 * kGigabyte));
    inside.push_back(builder.link(fmt::format("inside {}", i), 8 * kGigabyte));
  }
  return builder.with([&](const CostKey& key, std::size_t id) {
    Network::Flow flow{.bytes = bytes_of(id), .latency = microseconds(20), .links = {}};
    const std::size_t from = index(key.source) / 2, to = index(key.target) / 2;
    if (is_collective(key.kind)) {
      flow.links.push_back(core);
      for (std::size_t i = 0; i + 1 < up.size(); ++i)
        flow.links.insert(flow.links.end(), {up[i], down[i], inside[i]});
    } else if (from == to) {
      flow.links = {inside[from]};
    } else {
      flow.links = {up[from], core, down[to]};
    }
    return flow;
  });
}

/// One adapter a device, the same for what leaves and what arrives; some flows have a limit.
Network half_duplex_adapters(const Program& program) {
  Builder builder(program);
  const auto adapter = builder.link_each("adapter", 2 * kGigabyte);
  return builder.with([&](const CostKey& key, std::size_t id) {
    Network::Flow flow{.bytes = bytes_of(id),
                       .links = {adapter[index(key.source)], adapter[index(key.target)]}};
    if (key.source == key.target) flow.links.pop_back();
    if (id % 3 == 0) flow.bytes_per_second = 0.9 * kGigabyte;
    return flow;
  });
}

/// A ring each way, on which activations go down and gradients up, sums all round; latencies
/// differ, and as in TCP shares with them.
Network ring(const Program& program) {
  Builder builder(program);
  const std::size_t devices = program.placement().devices;
  const auto down = builder.link_each("ring", 1.8 * kGigabyte);
  return builder.with([&](const CostKey& key, std::size_t id) {
    const auto latency = microseconds(10 + 5 * (id % 3));
    Network::Flow flow{.bytes = bytes_of(id),
                       .latency = latency,
                       .links = {},
                       .weight = 1.0 / to_seconds(latency)};
    if (is_collective(key.kind)) {
      flow.links = down;
    } else {
      for (std::size_t at = index(key.source); at != index(key.target); at = (at + 1) % devices)
        flow.links.push_back(down[at]);
    }
    return flow;
  });
}

constexpr std::pair<const char*, Network (*)(const Program&)> kNetworks[] = {
    {"private links", private_links},
    {"one backbone", backbone},
    {"adapters, backbone", adapters_and_backbone},
    {"two-level tree", tree},
    {"half-duplex adapters", half_duplex_adapters},
    {"ring, by latency", ring}};

struct Asked {
  std::string_view schedule;
  ScheduleRequest request;
  std::int64_t batches;
};

std::vector<Asked> all_asked() {
  return {{"1f1b", {.devices = 4, .microbatches = 8, .tied_embeddings = true}, 2},
          {"gpipe", {.devices = 6, .microbatches = 6, .width = 2}, 2},
          {"2bw", {.devices = 4, .microbatches = 8, .width = 2, .tied_embeddings = true}, 4},
          {"interleaved", {.devices = 4, .microbatches = 8, .chunks = 2}, 2},
          {"zb-h1", {.devices = 5, .microbatches = 10, .tied_embeddings = true}, 2},
          {"chimera", {.devices = 4, .microbatches = 8}, 3}};
}

Program program_of(const Asked& asked) {
  return lower(make_schedule(find_schedule(asked.schedule), asked.request));
}

Timeline run_contended(const Program& program, const CostTable& costs, const Network& network,
                       std::int64_t batches) {
  check(network, program);
  const ContendedProgram compiled(program, costs, network);
  Timeline timeline;
  ContendedMachine machine(compiled, &timeline);
  machine.run(batches);
  return timeline;
}

/// The network in which the first link carries a hundredth less must be another one to SimGrid too,
/// or the comparison would see nothing.
void check_notices(const Program& program, const CostTable& costs, Network network,
                   const Timeline& ours) {
  for (Network::Link& link : network.links) link.bytes_per_second *= 0.99;
  const PeerComparison other = *compare_with_simgrid(program, costs, network, ours);
  TANDEM_CHECK(other.apart_s > 1e-5 * other.makespan_s, other.apart_s, other.makespan_s);
}

Section against_simgrid() {
  Section section{
      "Ends of all ops over shared links: the most that one differs from SimGrid's "
      "(CM02), of the makespan",
      {}};
  for (const Asked& asked : all_asked()) {
    const Program program = program_of(asked);
    const CostTable costs = uneven_price_of(program);
    for (const auto& [name, make] : kNetworks) {
      const Network network = make(program);
      const Timeline ours = run_contended(program, costs, network, asked.batches);
      const auto theirs = compare_with_simgrid(program, costs, network, ours);
      if (!theirs) return {};  // not installed where this was built
      check_notices(program, costs, network, ours);
      section.rows.push_back(
          {.what = fmt::format("{}, {} devices: {}", asked.schedule, asked.request.devices, name),
           .value = theirs->apart_s / theirs->makespan_s,
           .unit = fmt::format("of {:.6g} ms", theirs->makespan_s * 1e3),
           .floor = 1e-6,
           .at_most = true});
    }
  }
  return section;
}

Section rates(int repetitions) {
  constexpr std::int64_t kBatches = 8;
  const Asked asked{"1f1b", {.devices = 64, .microbatches = 512}, kBatches};
  const Program program = program_of(asked);
  const CostTable costs = uneven_price_of(program);
  const ContendedProgram alone(program, costs, {}), own(program, costs, private_links(program)),
      shared(program, costs, backbone(program)),
      adapters(program, costs, adapters_and_backbone(program));
  const auto run = [](const ContendedProgram& compiled, std::int64_t batches) {
    return [&compiled, batches] {
      ContendedMachine machine(compiled);
      machine.run(batches);
      keep(machine);
    };
  };
  const std::vector<double> seconds = best_processor_seconds(
      repetitions,
      {run(alone, kBatches), run(own, kBatches), run(shared, kBatches), run(adapters, 1),
       [&] { keep(ContendedProgram(program, costs, backbone(program))); }});
  Section section{fmt::format("The contended machine on {} batches of {}, {} devices, {} "
                              "microbatches: {} instructions a body",
                              kBatches, asked.schedule, asked.request.devices,
                              asked.request.microbatches, program.size()),
                  {}};
  const auto row = [&](const char* what, double time, std::int64_t batches,
                       std::optional<double> floor) {
    section.rows.push_back(
        {.what = what,
         .value = static_cast<double>(program.size()) * static_cast<double>(batches) / time / 1e6,
         .unit = "M instructions/s",
         .floor = floor});
  };
  row("nothing moves over links", seconds[0], kBatches, 10.0);
  row("a link of each transfer's own", seconds[1], kBatches, 10.0);
  row("all transfers over one backbone", seconds[2], kBatches, 4.0);
  row("the same behind adapters of 64 rates, 1 batch", seconds[3], 1, std::nullopt);
  row("compiling, one backbone", seconds[4], 1, std::nullopt);
  return section;
}

}  // namespace

std::vector<Section> contention_sections(const Settings& settings) {
  std::vector<Section> sections{rates(settings.repetitions)};
  if (Section peer = against_simgrid(); !peer.rows.empty()) sections.push_back(std::move(peer));
  return sections;
}

}  // namespace tandem::benchmarks
