#pragma once
// StepBound: a time below which no plan of a shape makes a step, however its devices are ordered.

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "planner/cluster/cluster_space.h"
#include "planner/cluster/schedule_sketch.h"
#include "simulator/cost/cluster_layout.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

/// Seconds; of computation alone, nobody waiting for a transfer or a sum. C is what layers take of
/// a microbatch, all halves of its backward included; Q is that without the gradients of weights.
/// - A group of devices computes one thing at a time: no step takes less than a pipeline's
///   microbatches' C and the update shared out over its groups by their speed (at the layers that
///   each does best; replicas wait for the slowest of them); where each has one stage and all are
///   alike, no less than the busiest, of whole layers.
/// - A step that begins at updated weights (vanilla) ends behind the last gradient of an input, on
///   the first stage. Until the first microbatch has come to a device through the stages before it,
///   and since the last went back from there, that computes no Q: of its m·Q and those stages' ΣQ a
///   step takes the sum. Where backwards are whole, Q is C.
/// - A microbatch passes all stages there and back, the last stage takes one after the other.
/// To be used by one thread. `question` must outlive it.
class StepBound {
 public:
  explicit StepBound(const ClusterQuestion& question, std::shared_ptr<ClusterWays> ways);

  /// Of any schedule, in any cut. Throws what analytic_layers() does.
  double of(const ClusterFrame& frame);
  enum class Cut : bool {
    any,
    balanced,  // as StageCut::balanced: no stage is longer than the busiest must be, so that those
               // before a device are not short
  };
  /// Of this one; no less than that of its frame. Balanced: where memory is no matter.
  double of(const ClusterShape& shape, Cut cut);

 private:
  /// Of all layers before each layer, in seconds.
  using Sums = std::vector<double>;
  /// Microbatches of one kind: what all layers take.
  struct Work {
    /// Passes of a microbatch through the model, a second, by each group.
    std::vector<double> speeds;
    std::int64_t alike = 0;          // so many groups are as the first, which takes
    Sums whole, halves;              // C where backwards are whole, or halves
    Sums inputs;                     // Q of halves
    Sums first_whole, first_inputs;  // Q of the first slice of each sequence
    Sums updates;                    // not sharded
  };
  static void add_layers(const LayerTimes& times, Work& work);
  const Work& work(const ClusterFrame& frame);
  Work make_work(const ClusterFrame& frame) const;
  /// Passes of a microbatch through the model by all devices of one pipeline.
  double passes_per_s(const ClusterFrame& frame, DeviceOrder order);
  /// The least that the busiest of so many stages computes in a batch.
  double busiest(const ClusterFrame& frame, std::size_t stages, bool halves);
  double one_stage_a_device(const ClusterFrame& frame, const ScheduleSketch& of);
  double waiting(const ClusterFrame& frame, const ScheduleSketch& of, std::size_t stages, Cut cut);

  const ClusterQuestion& question_;
  std::shared_ptr<ClusterWays> ways_;
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, Recompute>;
  std::map<Key, Work> known_;
  using StageKey = std::tuple<Key, std::size_t, std::int32_t, std::int64_t, bool>;
  std::map<StageKey, double> busiest_;
  ScheduleSketches sketches_;
};

}  // namespace tandem
