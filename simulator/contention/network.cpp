#include "simulator/contention/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

void check_flow(const Network& network, const Network::Flow& flow, const CostKey& key) {
  TANDEM_CHECK(!on_compute_lane(key.kind), name(key.kind));
  TANDEM_CHECK(flow.bytes >= 0 && flow.latency >= Duration{}, flow.bytes, flow.latency.count());
  TANDEM_CHECK(flow.bytes_per_second > 0.0, flow.bytes_per_second);
  TANDEM_CHECK(std::isfinite(flow.weight) && flow.weight > 0.0, flow.weight);
  for (const Network::LinkId link : flow.links)
    TANDEM_CHECK(index(link) < network.links.size(), index(link));
  TANDEM_CHECK(!flow.links.empty() || std::isfinite(flow.bytes_per_second) || flow.bytes == 0);
}

}  // namespace

void check(const Network& network, const Program& program) {
  for (const Network::Link& link : network.links)
    TANDEM_CHECK(std::isfinite(link.bytes_per_second) && link.bytes_per_second > 0.0, link.name);
  const Table<DeviceId, double>& slowdowns = network.compute_slowdown;
  TANDEM_CHECK(slowdowns.empty() || slowdowns.size() == program.placement().devices);
  for (const double slowdown : slowdowns)
    TANDEM_CHECK(std::isfinite(slowdown) && slowdown >= 1.0, slowdown);
  TANDEM_CHECK(network.flows.empty() || network.flows.size() == program.cost_keys().size());
  constexpr double kLongest =
      1e18;  // what no clock of ours could count is longer, or a sum of such
  std::vector<Diagnostic> diagnostics;
  for (const CostId id : ids(network.flows)) {
    const CostKey& key = program.cost_keys()[id];
    for (const Network::Flow& flow : network.flows[id]) {
      check_flow(network, flow, key);
      const double rate = unshared_rate(network, flow);
      if (flow.bytes == 0 || static_cast<double>(flow.bytes) / rate * 1e9 < kLongest) continue;
      diagnostics.push_back({.message = fmt::format(
                                 "{} of stage {}, device {} to {}: {} bytes at {} bytes per second "
                                 "take longer than 30 years",
                                 name(key.kind), index(key.replica), index(key.source),
                                 index(key.target), flow.bytes, rate)});
    }
  }
  if (!diagnostics.empty()) throw InputError(std::move(diagnostics));
}

double unshared_rate(const Network& network, const Network::Flow& flow) {
  double rate = flow.bytes_per_second;
  for (const Network::LinkId link : flow.links) {
    const auto times = std::ranges::count(flow.links, link);
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
