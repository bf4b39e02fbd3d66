#include "simulator/contention/network.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

class Checker {
 public:
  Checker(const Network& network, const Program& program) : network_(network), program_(program) {}

  void check() {
    for (const Network::LinkId link : ids(network_.links)) {
      const double rate = network_.links[link].bytes_per_second;
      if (std::isfinite(rate) && rate > 0.0) continue;
      diagnose("link \"{}\" carries {} bytes per second, so what crosses it would never arrive",
               network_.links[link].name, rate);
    }
    const std::size_t keys = program_.cost_keys().size();
    if (!network_.flows.empty() && network_.flows.size() != keys) {
      diagnose("{} rows of flows for {} cost keys", network_.flows.size(), keys);
    } else {
      for (const CostId key : ids(network_.flows)) check(key);
    }
    check_slowdowns();
    if (diagnostics_.empty()) check_times();
    if (!diagnostics_.empty()) throw InputError(std::move(diagnostics_));
  }

 private:
  template <class... Values>
  void diagnose(fmt::format_string<Values...> text, Values&&... values) {
    diagnostics_.push_back({.message = fmt::format(text, std::forward<Values>(values)...)});
  }

  std::string place_of(CostId id) const {
    const CostKey& key = program_.cost_keys()[id];
    return fmt::format("{} of stage {}, device {} to {}", name(key.kind), index(key.replica),
                       index(key.source), index(key.target));
  }

  void check(CostId id) {
    const CostKey& key = program_.cost_keys()[id];
    const std::vector<Network::Flow>& flows = network_.flows[id];
    const std::string of = place_of(id);
    if (!flows.empty() && on_compute_lane(key.kind)) diagnose("{} has a flow: it computes", of);
    for (const Network::Flow& flow : flows) {
      if (flow.bytes < 0) diagnose("{}: a flow of {} bytes", of, flow.bytes);
      if (flow.latency < Duration{}) diagnose("{}: a latency of {} ns", of, flow.latency.count());
      if (!(flow.bytes_per_second > 0.0)) {
        diagnose("{}: at most {} bytes per second, so it would never arrive", of,
                 flow.bytes_per_second);
      }
      if (!(std::isfinite(flow.weight) && flow.weight > 0.0)) {
        diagnose("{}: a share of weight {}", of, flow.weight);
      }
      for (const Network::LinkId link : flow.links) {
        if (index(link) < network_.links.size()) continue;
        diagnose("{} crosses link {} of {}", of, index(link), network_.links.size());
      }
      if (flow.bytes > 0 && flow.links.empty() && !std::isfinite(flow.bytes_per_second)) {
        diagnose("{} crosses no link, and has no rate of its own", of);
      }
    }
  }

  /// What no clock of ours could count (292 years, and sums of such).
  void check_times() {
    constexpr double kLongest = 1e18;
    for (const CostId id : ids(network_.flows)) {
      for (const Network::Flow& flow : network_.flows[id]) {
        if (flow.bytes == 0) continue;
        const double rate = unshared_rate(network_, flow);
        if (static_cast<double>(flow.bytes) / rate * 1e9 < kLongest) continue;
        diagnose("{}: {} bytes at {} bytes per second take longer than 30 years", place_of(id),
                 flow.bytes, rate);
      }
    }
  }

  void check_slowdowns() {
    const Table<DeviceId, double>& slowdowns = network_.compute_slowdown;
    const std::size_t devices = program_.placement().devices;
    if (!slowdowns.empty() && slowdowns.size() != devices) {
      diagnose("{} slowdowns of compute for {} devices", slowdowns.size(), devices);
    }
    for (const DeviceId device : ids(slowdowns)) {
      if (std::isfinite(slowdowns[device]) && slowdowns[device] >= 1.0) continue;
      diagnose("device {}: a slowdown of compute of {}, not 1 or more", index(device),
               slowdowns[device]);
    }
  }

  const Network& network_;
  const Program& program_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

void check(const Network& network, const Program& program) { Checker(network, program).check(); }

double unshared_rate(const Network& network, const Network::Flow& flow) {
  double rate = flow.bytes_per_second;
  for (const Network::LinkId link : flow.links) {
    const auto times = std::count(flow.links.begin(), flow.links.end(), link);
    rate = std::min(rate, network.links[link].bytes_per_second / static_cast<double>(times));
  }
  return rate;
}

CostTable unshared_costs(const Network& network, CostTable costs) {
  for (const CostId key : ids(network.flows)) {
    const std::vector<Network::Flow>& flows = network.flows[key];
    if (flows.empty()) continue;
    costs[key] = {};
    for (const Network::Flow& flow : flows) {
      costs[key] += flow.latency;
      if (flow.bytes > 0) costs[key] += transmission_time(flow.bytes, unshared_rate(network, flow));
    }
  }
  return costs;
}

}  // namespace tandem
