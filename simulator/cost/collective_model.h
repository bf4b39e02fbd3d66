#pragma once
// Time of an all-reduce from six measured constants: the best of three algorithms, each by two
// protocols, in the manner of NCCL's own choice (NCCL, src/graph/tuning.cc).

#include <array>
#include <cstdint>

#include "core/base/units.h"
#include "core/model/collectives.h"

namespace tandem {

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
  std::int64_t node_hops = 0;  // steps from node to node, one after the other
  double moving_s = 0.0;       // of all bytes at the rates of the ways
};
AlgorithmCost algorithm_cost(CollectiveAlgorithm algorithm, const CollectiveConstants& constants,
                             const CollectiveGroup& group, double bytes);

/// Seconds of the fastest algorithm. Its bytes take x by the protocol of low latency and y by the
/// one of full rate, and together xy / (x + y): NCCL does not go over from one to the other at
/// once, but by a third between them and by channels that grow in number with the message. No call
/// is shorter than its launches by one host thread. 0 for one device. REQUIRES: one node, or
/// constants that know several.
double all_reduce_seconds(const CollectiveConstants& constants, const CollectiveGroup& group,
                          double bytes);

/// The same in nanoseconds. Throws InputError where it is above a day, and of several nodes where
/// the constants know one alone.
Duration all_reduce_time(const CollectiveConstants& constants, const CollectiveGroup& group,
                         Bytes bytes);

}  // namespace tandem
