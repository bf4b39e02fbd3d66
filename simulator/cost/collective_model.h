#pragma once
// Time of an all-reduce: the best of three algorithms, each by two protocols, in the manner of
// NCCL's own choice (NCCL, src/graph/tuning.cc). What the ways reach is measured, or assumed of the
// cluster's links.

#include <array>
#include <cstdint>
#include <limits>

#include "core/base/units.h"
#include "core/model/collectives.h"

namespace tandem {

/// What a group's sum gets of the links on the way from one device to the next.
struct CollectiveWay {
  double bytes_per_s = std::numeric_limits<double>::infinity();
  double latency_s = 0.0;
  friend bool operator==(const CollectiveWay&, const CollectiveWay&) = default;
};

struct CollectiveWays {
  CollectiveWay within;   // a node, into each device and out of it at once
  CollectiveWay between;  // nodes, out of one and into it, for all its devices together
  double launch_s = 0.0;  // of a kernel by its host thread, and the least that a call takes
  /// What the protocol of full rate waits for before it is at it, whatever the steps within nodes;
  /// 0: each of them takes its latency.
  double protocol_s = 0.0;
  /// Of a message, by the protocol that waits for nothing; 0: there is none.
  double low_latency_bytes_per_s = 0.0;
  friend bool operator==(const CollectiveWays&, const CollectiveWays&) = default;
};

/// Those of measured constants for a group.
CollectiveWays ways_of(const CollectiveConstants& constants, const CollectiveGroup& group);

/// How the bytes go. Bytes a device sends are those of its slowest way; a step within a node has no
/// latency of its own, which logs of nccl-tests can't tell from that of the launch.
enum class CollectiveAlgorithm : std::uint8_t {
  ring,          // 2 (n - 1) steps around all devices
  tree,          // two binary trees over the nodes, a chain in each: up and down
  hierarchical,  // scattered in each node, rings over the nodes, gathered
};
inline constexpr std::array kCollectiveAlgorithms{
    CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical};

/// What one algorithm takes of an idle host thread, but for the launch.
struct AlgorithmCost {
  std::int64_t node_hops = 0;    // steps from node to node, one after the other
  std::int64_t device_hops = 0;  // steps within nodes
  double moving_s = 0.0;         // of all bytes at the rates of the ways
};
AlgorithmCost algorithm_cost(CollectiveAlgorithm algorithm, const CollectiveWays& ways,
                             const CollectiveGroup& group, double bytes);

/// Seconds of the fastest algorithm. Its bytes take x by the protocol of low latency and y by the
/// one of full rate, and together xy / (x + y): NCCL does not go over from one to the other at
/// once, but by a third between them and by channels that grow in number with the message. No call
/// is shorter than its launches by one host thread. 0 for one device.
double all_reduce_seconds(const CollectiveWays& ways, const CollectiveGroup& group, double bytes);
inline double all_reduce_seconds(const CollectiveConstants& constants, const CollectiveGroup& group,
                                 double bytes) {
  return all_reduce_seconds(ways_of(constants, group), group, bytes);
}

/// The same in nanoseconds. Throws InputError where it is above a day.
Duration all_reduce_time(const CollectiveWays& ways, const CollectiveGroup& group, Bytes bytes);
/// The same by measured constants. Throws InputError, too, where there are several nodes and the
/// constants know one alone.
Duration all_reduce_time(const CollectiveConstants& constants, const CollectiveGroup& group,
                         Bytes bytes);

}  // namespace tandem
