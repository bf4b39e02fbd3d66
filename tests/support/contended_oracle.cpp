#include "tests/support/contended_oracle.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {

namespace {

constexpr long double kInfinite = std::numeric_limits<long double>::infinity();

/// What is left of a phase of an instance: of time, or of a flow's bytes.
struct Phase {
  long double left = 0.0L;
  const Network::Flow* flow = nullptr;
};

struct Running {
  std::size_t node = 0;
  std::vector<Phase> phases;  // the current one in front
  std::vector<DeviceId> devices;
  bool computes = false;
};

class Clockwork {
 public:
  Clockwork(const Program& program, const CostTable& costs, const Network& network,
            std::int64_t batches)
      : program_(program),
        costs_(costs),
        network_(network),
        run_(program, batches),
        spans_(run_.nodes().size()),
        started_(spans_.size()),
        ended_(spans_.size()) {
    TANDEM_CHECK(run_.ordered());
    for (const Network::Link& link : network.links) capacities_.push_back(link.bytes_per_second);
  }

  std::vector<OracleSpan> run() {
    while (start_some() || !running_.empty()) advance();
    return spans_;
  }

 private:
  bool start_some() {
    bool any = false;
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const auto& follows = run_.nodes()[i].follows;
      const auto is_over = [&](std::size_t before) { return ended_[before]; };
      if (started_[i] || !std::all_of(follows.begin(), follows.end(), is_over)) continue;
      start(i);
      any = true;
    }
    return any;
  }

  void start(std::size_t node) {
    const InstructionId id = run_.nodes()[node].id;
    const CostId cost = program_[id].cost;
    started_[node] = true;
    spans_[node] = {.id = id, .body = run_.nodes()[node].body, .start = now_};
    Running running{.node = node, .phases = {}, .devices = {}};
    running.computes = on_compute_lane(program_[id].op.kind);
    if (network_.flows.empty() || network_.flows[cost].empty()) {
      running.phases.push_back({static_cast<long double>(costs_[cost].count())});
    } else {
      for (const Network::Flow& flow : network_.flows[cost]) {
        running.phases.push_back({static_cast<long double>(flow.latency.count())});
        running.phases.push_back({static_cast<long double>(flow.bytes), &flow});
      }
    }
    const CostKey& key = program_.cost_keys()[cost];
    if (is_transfer(key.kind) || running.computes) running.devices = {key.source, key.target};
    if (is_collective(key.kind)) {
      for (const LaneId lane : program_.lanes(program_[id])) {
        running.devices.push_back(program_.lanes()[lane].device);
      }
    }
    running_.push_back(std::move(running));
  }

  /// How fast the current phase of each passes: bytes or nanoseconds per nanosecond.
  std::vector<long double> paces() const {
    std::vector<OracleFlow> flows;
    for (const Running& running : running_) {
      const Network::Flow* const flow = running.phases.front().flow;
      if (flow == nullptr) continue;
      flows.push_back({{}, flow->bytes_per_second, flow->weight});
      for (const Network::LinkId link : flow->links) flows.back().links.push_back(index(link));
    }
    const std::vector<long double> rates = max_min_rates(capacities_, flows);
    std::vector<long double> paces;
    std::size_t next = 0;
    for (const Running& running : running_) {
      if (running.phases.front().flow != nullptr) {
        paces.push_back(rates[next++] * 1e-9L);
      } else {
        paces.push_back(running.computes ? 1.0L / slowdown_of(running.devices.front()) : 1.0L);
      }
    }
    return paces;
  }

  long double slowdown_of(DeviceId device) const {
    if (network_.compute_slowdown.empty()) return 1.0L;
    for (const Running& running : running_) {
      if (running.computes) continue;
      if (std::count(running.devices.begin(), running.devices.end(), device) > 0) {
        return network_.compute_slowdown[device];
      }
    }
    return 1.0L;
  }

  void advance() {
    // What has nothing left is over before anything else happens.
    if (!end_some()) {
      const std::vector<long double> pace = paces();
      long double step = kInfinite;
      for (std::size_t i = 0; i < running_.size(); ++i) {
        step = std::min(step, running_[i].phases.front().left / pace[i]);
      }
      for (std::size_t i = 0; i < running_.size(); ++i) {
        Phase& phase = running_[i].phases.front();
        const bool over = phase.left / pace[i] <= step * (1.0L + 1e-15L);
        phase.left = over ? 0.0L : phase.left - pace[i] * step;
      }
      now_ += step;
      end_some();
    }
  }

  bool end_some() {
    bool any = false;
    for (Running& running : running_) {
      while (!running.phases.empty() && running.phases.front().left <= 0.0L) {
        running.phases.erase(running.phases.begin());
        any = true;
      }
      if (!running.phases.empty()) continue;
      ended_[running.node] = true;
      spans_[running.node].end = now_;
    }
    std::erase_if(running_, [](const Running& running) { return running.phases.empty(); });
    return any;
  }

  const Program& program_;
  const CostTable& costs_;
  const Network& network_;
  Unrolled run_;
  std::vector<OracleSpan> spans_;
  std::vector<bool> started_, ended_;
  std::vector<double> capacities_;
  std::vector<Running> running_;
  long double now_ = 0.0L;
};

}  // namespace

std::vector<long double> max_min_rates(const std::vector<double>& capacities,
                                       const std::vector<OracleFlow>& flows) {
  std::vector<long double> rates(flows.size(), 0.0L);
  std::vector<bool> stays(flows.size(), false);
  const auto used = [&](std::size_t link, bool only_growing) {
    long double sum = 0.0L;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (only_growing && stays[i]) continue;
      const auto times = std::count(flows[i].links.begin(), flows[i].links.end(), link);
      sum += static_cast<long double>(times) * (only_growing ? flows[i].weight : rates[i]);
    }
    return sum;
  };
  while (std::count(stays.begin(), stays.end(), false) > 0) {
    long double step = kInfinite;  // by which rates grow, for each unit of weight
    for (std::size_t link = 0; link < capacities.size(); ++link) {
      const long double growing = used(link, true);
      if (growing > 0.0L) step = std::min(step, (capacities[link] - used(link, false)) / growing);
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (!stays[i]) step = std::min(step, (flows[i].cap - rates[i]) / flows[i].weight);
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (!stays[i]) rates[i] += step * flows[i].weight;
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      stays[i] = stays[i] || rates[i] >= flows[i].cap * (1.0L - 1e-15L);
      for (const std::size_t link : flows[i].links) {
        stays[i] = stays[i] || used(link, false) >= capacities[link] * (1.0L - 1e-15L);
      }
    }
  }
  return rates;
}

std::vector<OracleSpan> times_over_network(const Program& program, const CostTable& costs,
                                           const Network& network, std::int64_t batches) {
  return Clockwork(program, costs, network, batches).run();
}

}  // namespace tandem::testing
