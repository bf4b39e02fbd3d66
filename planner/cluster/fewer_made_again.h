#pragma once
// Between no recomputation, which does not fit, and all blocks made again: the first few of each
// stage (Megatron's "block" method). A search would have to bound and count each number of them for
// every shape that does not fit without; so it is asked of the plans that were found.

#include <optional>

#include "planner/cluster/cluster_search.h"

namespace tandem {

/// Of the ten best plans those that make all blocks again, each with as few of each stage's first
/// blocks as fit; the fastest of these. Empty: none is faster than the best plan. Nothing is proved
/// of it. REQUIRES: the answer has a plan, the fastest.
std::optional<ClusterCandidate> with_fewer_made_again(const ClusterAnswer& answer);

}  // namespace tandem
