#pragma once
// Networks that tests give to programs.

#include <cstdint>
#include <random>
#include <vector>

#include "simulator/contention/network.h"

namespace tandem::testing {

/// Keys that move data between devices or among them.
inline std::vector<CostId> moving_keys(const Program& program) {
  std::vector<CostId> keys;
  for (const CostId id : ids(program.cost_keys())) {
    if (!on_compute_lane(program.cost_keys()[id].kind)) keys.push_back(id);
  }
  return keys;
}

inline Network::LinkId add_link(Network& network, double bytes_per_second) {
  return network.links.push_back(
      {"link " + std::to_string(network.links.size()), bytes_per_second});
}

inline Network empty_network(const Program& program) {
  Network network;
  network.flows.resize(program.cost_keys().size());
  return network;
}

/// A byte for each nanosecond of the price, at a byte a nanosecond over a link of each key's own.
inline Network private_links(const Program& program, const CostTable& costs) {
  Network network = empty_network(program);
  for (const CostId key : moving_keys(program)) {
    const Network::LinkId link = add_link(network, 1e9);
    network.flows[key] = {{.bytes = costs[key].count(), .links = {link}}};
  }
  return network;
}

/// The same bytes over one backbone of so many a second, of each at a byte a nanosecond at the
/// most.
inline Network backbone(const Program& program, const CostTable& costs, double bytes_per_second) {
  Network network = empty_network(program);
  const Network::LinkId shared = add_link(network, bytes_per_second);
  for (const CostId key : moving_keys(program)) {
    network.flows[key] = {
        {.bytes = costs[key].count(), .links = {shared}, .bytes_per_second = 1e9}};
  }
  return network;
}

/// Anything allowed: a few links of any rate, flows over up to three of them, or over one twice,
/// latencies, limits, weights, several flows one after the other, slowdowns, keys without flows.
inline Network random_network(const Program& program, std::mt19937_64& random, bool slows) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  Network network = empty_network(program);
  const std::size_t links = 1 + below(5);
  for (std::size_t i = 0; i < links; ++i) {
    add_link(network, static_cast<double>(1 + below(40)) * 1e8);
  }
  for (const CostId key : moving_keys(program)) {
    const std::size_t flows = below(8) == 0 ? 0 : 1 + (below(6) == 0 ? 1 : 0);
    for (std::size_t i = 0; i < flows; ++i) {
      Network::Flow flow{.bytes = static_cast<Bytes>(below(8) == 0 ? 0 : below(2'000'000))};
      if (below(2) == 0) flow.latency = Duration(below(300'000));
      for (std::size_t crossed = 1 + below(3); crossed > 0; --crossed) {
        flow.links.push_back(id_at<Network::LinkId>(below(links)));
      }
      if (below(4) == 0) flow.bytes_per_second = static_cast<double>(1 + below(20)) * 1e8;
      if (below(4) == 0) flow.weight = static_cast<double>(1 + below(8)) / 2.0;
      network.flows[key].push_back(std::move(flow));
    }
  }
  if (slows) {
    for (std::size_t i = 0; i < program.placement().devices; ++i) {
      network.compute_slowdown.push_back(1.0 + static_cast<double>(below(3)) * 0.3);
    }
  }
  return network;
}

}  // namespace tandem::testing
