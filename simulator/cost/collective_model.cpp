#include "simulator/cost/collective_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

constexpr double kLongestCollective = 86'400.0;  // a day

/// What each of n devices sends of a byte in a reduce-scatter and an all-gather around them.
double around(std::int64_t devices) {
  const auto n = static_cast<double>(devices);
  return 2.0 * (n - 1.0) / n;
}

}  // namespace

CollectiveWays ways_of(const CollectiveConstants& constants, const CollectiveGroup& group) {
  return {.within = {.bytes_per_s = constants.within_node_bytes_per_s},
          .between = {.bytes_per_s = constants.between_nodes_bytes_per_s *
                                     static_cast<double>(group.least_per_node),
                      .latency_s = constants.node_hop_s},
          .launch_s = constants.launch_s,
          .protocol_s = constants.simple_s,
          .low_latency_bytes_per_s = constants.low_latency_bytes_per_s};
}

AlgorithmCost algorithm_cost(CollectiveAlgorithm algorithm, const CollectiveWays& ways,
                             const CollectiveGroup& group, double bytes) {
  const std::int64_t nodes = group.nodes, members = group.least_per_node;
  const double within = ways.within.bytes_per_s, between = ways.between.bytes_per_s;
  const double slowest = nodes > 1 ? std::min(within, between) : within;
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      return {2 * (nodes - 1), 2 * (group.devices - nodes),
              around(group.devices) * bytes / slowest};
    case CollectiveAlgorithm::tree: {
      const auto levels = std::bit_width(static_cast<std::uint64_t>(nodes - 1));
      return {2 * static_cast<std::int64_t>(levels), 2 * (members - 1), 2.0 * bytes / slowest};
    }
    case CollectiveAlgorithm::hierarchical:
      break;
  }
  const double way_out_s = nodes > 1 ? around(nodes) * bytes / between : 0.0;
  return {2 * (nodes - 1), 2 * (members - 1), around(members) * bytes / within + way_out_s};
}

double all_reduce_seconds(const CollectiveWays& ways, const CollectiveGroup& group, double bytes) {
  TANDEM_CHECK(group.nodes >= 1 && group.least_per_node >= 1 && group.devices >= group.nodes,
               group.devices, group.nodes, group.least_per_node);
  if (group.devices == 1) return 0.0;
  double fastest = std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm algorithm : kCollectiveAlgorithms) {
    const AlgorithmCost cost = algorithm_cost(algorithm, ways, group, bytes);
    double waited = static_cast<double>(cost.node_hops) * ways.between.latency_s;
    if (ways.protocol_s == 0.0)
      waited += static_cast<double>(cost.device_hops) * ways.within.latency_s;
    double moving = ways.protocol_s + cost.moving_s;
    if (ways.low_latency_bytes_per_s > 0.0) {
      const double low_latency = bytes / ways.low_latency_bytes_per_s;
      moving = low_latency > 0.0 ? low_latency * moving / (low_latency + moving) : 0.0;
    }
    fastest = std::min(fastest, waited + moving);
  }
  return std::max(static_cast<double>(group.per_thread) * ways.launch_s, ways.launch_s + fastest);
}

Duration all_reduce_time(const CollectiveWays& ways, const CollectiveGroup& group, Bytes bytes) {
  const double seconds = all_reduce_seconds(ways, group, static_cast<double>(bytes));
  if (!(seconds <= kLongestCollective)) {
    throw InputError(fmt::format(
        "an all-reduce of {} bytes over {} devices would take {:.3g} s: expected at most a day",
        bytes, group.devices, seconds));
  }
  return Duration(std::llround(seconds * 1e9));
}

Duration all_reduce_time(const CollectiveConstants& constants, const CollectiveGroup& group,
                         Bytes bytes) {
  if (group.nodes > 1 && constants.between_nodes_bytes_per_s == 0.0) {
    throw InputError(
        fmt::format("an all-reduce of {} devices spans {} nodes: the constants of --collectives "
                    "were measured within one node",
                    group.devices, group.nodes));
  }
  return all_reduce_time(ways_of(constants, group), group, bytes);
}

}  // namespace tandem
