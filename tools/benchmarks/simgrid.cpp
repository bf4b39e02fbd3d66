#include "tools/benchmarks/simgrid.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <simgrid/s4u.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

namespace {

namespace sg = simgrid::s4u;

/// Runs a function in a process of its own: SimGrid has one engine a process, and no second.
/// REQUIRES: T is plain data of less than a page.
template <class T>
T in_child(const std::function<T()>& run) {
  int ends[2];
  if (::pipe(ends) != 0) throw DeviceError("SimGrid: no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const T result = run();
    const bool written =
        ::write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  T result;
  const bool whole = ::read(ends[0], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
  ::close(ends[0]);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !whole || status != 0)
    throw DeviceError("SimGrid: its run did not end");
  return result;
}

/// The one of this process. No latency of its own, no window that caps bandwidth, and no lines
/// about its settings; `more` of these.
std::unique_ptr<sg::Engine> make_engine(const std::vector<std::string>& more) {
  static std::vector<std::string> words{"tandem_bench", "--log=root.thresh:warning",
                                        "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0"};
  words.insert(words.end(), more.begin(), more.end());
  static std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  return std::make_unique<sg::Engine>(&count, arguments.data());
}

constexpr double kBytesPerSecond = 1e9;

/// Mailboxes of a device: what reaches it from above and from below.
std::string activations_of(std::size_t device) { return fmt::format("activations {}", device); }
std::string gradients_of(std::size_t device) { return fmt::format("gradients {}", device); }

/// One device: its ops in their order, receiving before and sending after.
void run_device(const std::vector<Op>& order, std::size_t device, std::size_t devices,
                const PeerTimes& times) {
  static int token = 0;
  sg::Mailbox* const from_above = sg::Mailbox::by_name(activations_of(device));
  sg::Mailbox* const from_below = sg::Mailbox::by_name(gradients_of(device));
  // With a receiver at hand a message travels as soon as it is sent, as ours do.
  from_above->set_receiver(sg::Actor::self());
  from_below->set_receiver(sg::Actor::self());
  const auto bytes = static_cast<std::uint64_t>(to_seconds(times.transfer) * kBytesPerSecond);
  for (const Op& op : order) {
    const bool forward = op.kind == OpKind::forward, last = device + 1 == devices;
    if (op.kind == OpKind::update) {
      sg::this_actor::sleep_for(to_seconds(times.update));
      continue;
    }
    if (forward && device > 0) from_above->get<int>();
    if (!forward && !last) from_below->get<int>();
    sg::this_actor::sleep_for(to_seconds(forward ? times.forward : times.backward));
    if (forward && !last)
      sg::Mailbox::by_name(activations_of(device + 1))->put_init(&token, bytes)->detach();
    else if (!forward && device > 0)
      sg::Mailbox::by_name(gradients_of(device - 1))->put_init(&token, bytes)->detach();
  }
}

std::vector<sg::Host*> make_platform(std::size_t devices) {
  sg::NetZone* const zone = sg::create_full_zone("devices");
  std::vector<sg::Host*> hosts;
  for (std::size_t device = 0; device < devices; ++device)
    hosts.push_back(zone->create_host(fmt::format("device {}", device), 1e9));
  const auto join = [&](std::size_t from, std::size_t to) {
    const sg::Link* const link =
        zone->create_link(fmt::format("{} to {}", from, to), kBytesPerSecond)->set_latency(0.0);
    zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(link)}, false);
  };
  for (std::size_t device = 1; device < devices; ++device) {
    join(device - 1, device);
    join(device, device - 1);
  }
  zone->seal();
  return hosts;
}

PeerRun simulate(const Schedule& schedule, const PeerTimes& times) {
  PeerRun run;
  double start = processor_seconds();
  const std::unique_ptr<sg::Engine> engine = make_engine({});
  const std::vector<sg::Host*> hosts = make_platform(schedule.placement.devices);
  for (std::size_t device = 0; device < hosts.size(); ++device) {
    const std::vector<Op>& order = schedule.order[id_at<DeviceId>(device)];
    sg::Actor::create(fmt::format("actor {}", device), hosts[device],
                      [&order, device, devices = hosts.size(), &times] {
                        run_device(order, device, devices, times);
                      });
  }
  run.build_s = processor_seconds() - start;
  start = processor_seconds();
  engine->run();
  run.run_s = processor_seconds() - start;
  run.makespan_s = sg::Engine::get_clock();
  return run;
}

// ---- A program over a network: an actor walks each lane; an instruction is done by the actor of
// its first lane, once those of the others have come to it and all that it waits for is over ----

/// Wide enough never to limit a flow whose link it is.
constexpr double kNoLimit = 1e18;

struct Ends {
  sg::Host *from = nullptr, *to = nullptr;
};

class Peer {
 public:
  Peer(const Program& program, const CostTable& costs, const Network& network, const Timeline& ours)
      : program_(program), costs_(costs), network_(network), ours_(ours) {
    for (std::size_t i = 0; i < ours.spans.size(); ++i) {
      place_[{ours.spans[i].body, ours.spans[i].instruction}] = i;
      may_start_.push_back(sg::Semaphore::create(0));
      has_ended_.push_back(sg::Semaphore::create(0));
    }
    ends_.resize(ours.spans.size());
    make_platform();
    find_consumers();
  }

  void create_actors() {
    std::map<LaneId, std::vector<std::size_t>> on;
    for (std::size_t i = 0; i < ours_.spans.size(); ++i) {  // in the order of each lane
      for (const LaneId lane : lanes_of(i)) on[lane].push_back(i);
    }
    for (auto& [lane, instances] : on) {
      sg::Actor::create(fmt::format("lane {}", index(lane)), host_,
                        [this, lane = lane, instances = std::move(instances)] {
                          for (const std::size_t i : instances) visit(lane, i);
                        });
    }
  }

  PeerComparison compare() const {
    PeerComparison result;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      result.makespan_s = std::max(result.makespan_s, ends_[i]);
      result.apart_s =
          std::max(result.apart_s, std::abs(ends_[i] - to_seconds(ours_.spans[i].end)));
    }
    return result;
  }

 private:
  std::span<const LaneId> lanes_of(std::size_t instance) const {
    return program_.lanes(program_[ours_.spans[instance].instruction]);
  }

  /// Each flow has ends of its own, between which lie its links and one more, with its latency and
  /// its own limit.
  void make_platform() {
    sg::NetZone* const zone = sg::create_full_zone("network");
    host_ = zone->create_host("all devices", 1e9);
    std::vector<const sg::Link*> links;
    for (const Network::Link& link : network_.links) {
      links.push_back(
          zone->create_link(fmt::format("{} {}", link.name, links.size()), link.bytes_per_second));
    }
    flows_.resize(network_.flows.size());
    for (const CostId key : ids(network_.flows)) {
      for (const Network::Flow& flow : network_.flows[key]) {
        const std::string name = fmt::format("flow {}.{}", index(key), flows_[key].size());
        const sg::Link* const own =
            zone->create_link(name, std::min(flow.bytes_per_second, kNoLimit))
                ->set_latency(to_seconds(flow.latency));
        const Ends ends{zone->create_host(name + " from", 1e9),
                        zone->create_host(name + " to", 1e9)};
        std::vector<sg::LinkInRoute> route{sg::LinkInRoute(own)};
        for (const Network::LinkId link : flow.links) route.emplace_back(links[index(link)]);
        zone->add_route(ends.from->get_netpoint(), ends.to->get_netpoint(), nullptr, nullptr, route,
                        false);
        flows_[key].push_back(ends);
      }
    }
    zone->seal();
  }

  void find_consumers() {
    consumers_.resize(ours_.spans.size());
    waits_.resize(ours_.spans.size());
    for (std::size_t i = 0; i < ours_.spans.size(); ++i) {
      const Span& span = ours_.spans[i];
      for (const Wait& wait : program_.waits(program_[span.instruction])) {
        const auto producer = place_.find({span.body - wait.lag, wait.producer});
        if (producer == place_.end()) continue;
        consumers_[producer->second].push_back(i);
        ++waits_[i];
      }
    }
  }

  void visit(LaneId lane, std::size_t i) {
    const std::size_t others = lanes_of(i).size() - 1;
    if (lane != lanes_of(i).front()) {
      may_start_[i]->release();
      has_ended_[i]->acquire();
      return;
    }
    for (std::size_t n = others + waits_[i]; n > 0; --n) may_start_[i]->acquire();
    work(program_[ours_.spans[i].instruction].cost);
    ends_[i] = sg::Engine::get_clock();
    for (std::size_t n = others; n > 0; --n) has_ended_[i]->release();
    for (const std::size_t consumer : consumers_[i]) may_start_[consumer]->release();
  }

  void work(CostId key) const {
    if (network_.flows.empty() || network_.flows[key].empty()) {
      if (costs_[key] > Duration{}) sg::this_actor::sleep_for(to_seconds(costs_[key]));
      return;
    }
    for (std::size_t i = 0; i < network_.flows[key].size(); ++i) {
      const Ends& ends = flows_[key][i];
      sg::Comm::sendto(ends.from, ends.to,
                       static_cast<std::uint64_t>(network_.flows[key][i].bytes));
    }
  }

  const Program& program_;
  const CostTable& costs_;
  const Network& network_;
  const Timeline& ours_;
  sg::Host* host_ = nullptr;
  Table<CostId, std::vector<Ends>> flows_;
  std::map<std::pair<std::int64_t, InstructionId>, std::size_t> place_;
  std::vector<std::vector<std::size_t>> consumers_;
  std::vector<std::size_t> waits_;
  std::vector<sg::SemaphorePtr> may_start_, has_ended_;
  std::vector<double> ends_;
};

PeerComparison run_peer(const Program& program, const CostTable& costs, const Network& network,
                        const Timeline& ours) {
  const std::unique_ptr<sg::Engine> engine =
      make_engine({"--cfg=network/crosstraffic:0", "--cfg=surf/precision:1e-12"});
  Peer peer(program, costs, network, ours);
  peer.create_actors();
  const double start = processor_seconds();
  engine->run();
  PeerComparison result = peer.compare();
  result.run_s = processor_seconds() - start;
  return result;
}

}  // namespace

std::optional<PeerRun> run_simgrid(const Schedule& schedule, const PeerTimes& times) {
  return in_child<PeerRun>([&] { return simulate(schedule, times); });
}

std::optional<PeerComparison> compare_with_simgrid(const Program& program, const CostTable& costs,
                                                   const Network& network, const Timeline& ours) {
  return in_child<PeerComparison>([&] { return run_peer(program, costs, network, ours); });
}

}  // namespace tandem::benchmarks
