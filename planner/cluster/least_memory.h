#pragma once
// LeastMemory: bytes below which no plan of a shape has its fullest device, however it is cut.

#include <cstdint>
#include <map>
#include <tuple>

#include "core/memory/stage_bytes.h"
#include "planner/cluster/cluster_space.h"

namespace tandem {

/// What a plan may fill of the device that has most.
Bytes most_usable(const ClusterQuestion& question);

/// What all devices of a pipeline need together, shared out over them: weights, gradients and the
/// optimizer once, and the activations of a microbatch, which all devices hold when it has come to
/// the last. To be used by one thread. `question` must outlive it.
class LeastMemory {
 public:
  explicit LeastMemory(const ClusterQuestion& question) : question_(question) {}

  double of(const ClusterShape& shape);
  /// Of all devices of a pipeline: weights, gradients and the optimizer once.
  double lasting(const ClusterShape& shape);

 private:
  const StageBytes& whole(const ClusterShape& shape);

  const ClusterQuestion& question_;
  /// Bytes of all layers, by tensor degree, microbatch size, slices, recomputation and shards.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, Recompute, std::int32_t>,
           StageBytes>
      whole_;
};

}  // namespace tandem
