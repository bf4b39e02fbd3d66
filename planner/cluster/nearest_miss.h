#pragma once
// nearest_miss(): of plans that don't fit on a cluster the one to begin with.

#include <optional>
#include <vector>

#include "planner/cluster/cluster_space.h"

namespace tandem {

/// A shape that does not fit, and bytes below which its fullest device can't be (LeastMemory).
struct MemoryMissOfShape {
  double least = 0.0;
  ClusterShape shape;
};

/// Asks for the shape whose fullest device lacks least; of equal ones the first. Only of those 128
/// whose `least` is least are the bytes counted, in the question's order of devices. Empty: none
/// can be made.
std::optional<ClusterRequest> nearest_miss(const ClusterQuestion& question,
                                           std::vector<MemoryMissOfShape> misses);

}  // namespace tandem
