#pragma once
// PaceBound: a time below which no plan of a shape makes a step within its devices' memory.

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "planner/cluster/cluster_space.h"
#include "planner/cluster/least_memory.h"
#include "planner/cluster/schedule_sketch.h"
#include "simulator/cost/cluster_layout.h"

namespace tandem {

/// By Little's law (1961): what a layer keeps of a microbatch stays from its forward to its
/// backward, no shorter than the layers behind it take there and back. So m microbatches a step of
/// T seconds fill a pipeline's devices, in the mean over time, with m/T · Σ bytes of a layer · time
/// from it there and back, whatever the schedule, the cut and the order; beside what lasts and
/// the workspace of an op on each that is no more than they have. To be used by one thread.
/// `question` must outlive it.
class PaceBound {
 public:
  PaceBound(const ClusterQuestion& question, std::shared_ptr<ClusterWays> ways);

  /// Seconds; infinite where not even what lasts fits; 0 where layers can't be priced or counted.
  double of(const ClusterShape& shape);

 private:
  /// Σ bytes · seconds of a microbatch, where backwards are whole, or an input's gradient is
  /// enough.
  struct Stay {
    double whole = 0.0, halves = 0.0;
    double workspace = 0.0;  // bytes that an op of any layer in a block needs
  };
  Stay stay(const ClusterFrame& frame) const;
  /// What each layer takes for a slice of a microbatch, in any cut.
  struct LayerNeeds {
    std::vector<double> kept = {};  // from its forward to its backward
    double workspace = 0.0;
  };
  LayerNeeds needs(const Plan& plan, const ClusterFrame& frame, SequencePart part) const;
  void add_slice(const Plan& plan, const ClusterFrame& frame, SequencePart part, Stay& stay) const;

  const ClusterQuestion& question_;
  std::shared_ptr<ClusterWays> ways_;
  const double usable_;  // bytes of the device that has most
  LeastMemory memory_;
  ScheduleSketches sketches_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, Recompute>, Stay> known_;
};

}  // namespace tandem
