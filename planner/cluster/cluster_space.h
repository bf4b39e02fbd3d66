#pragma once
// What may be done with a model on a cluster: every way to lay it out, and why some are none.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cluster/cluster_setup.h"
#include "planner/cluster/objective.h"
#include "planner/search/candidates.h"

namespace tandem {

/// "What do I run?" Of what is empty all is searched.
struct ClusterQuestion {
  /// The model, its optimizer, the cluster and what is assumed of it. The schedule, the shape, the
  /// microbatches, recomputation, the tensor degree and the sharding of the optimizer do not count.
  ClusterRequest base;
  std::int64_t global_batch = 1;  // samples of one update
  Objective objective = Objective::throughput;
  std::vector<std::string> schedules = {};
  bool vanilla_only = false;      // no delayed weights
  std::int64_t most_devices = 0;  // 0: all that the cluster has
  std::optional<std::int32_t> tensor = {}, microbatch_size = {};
  std::optional<std::uint16_t> depth = {}, width = {}, chunks = {};
  std::optional<Recompute> recompute = {};
  std::optional<bool> sharded_optimizer = {};
  std::optional<DeviceOrder> order = {};
  bool given_node_order = false;  // the cluster's; else every order of its kinds (node_orders())
  bool contention = false;        // transfers and sums share links through time
  double gap = 0.0;               // the search ends when none can take less by more than this share

  std::int64_t devices() const;
};

/// Samples of a microbatch that is searched, unless one is given.
inline constexpr std::int32_t kMostMicrobatchSize = 32;

/// All of a layout but the schedule: `width` pipelines of `depth` groups of `tensor` devices.
struct ClusterFrame {
  std::int32_t tensor = 1;
  std::uint16_t width = 1, depth = 1;
  std::int32_t slices = 1;  // equal ones, of each sequence
  std::int32_t microbatch_size = 1, microbatches = 1;
  Recompute recompute = {};
  bool sharded_optimizer = false;  // over the width
  std::int64_t groups() const { return std::int64_t{width} * depth; }
  friend auto operator<=>(const ClusterFrame&, const ClusterFrame&) = default;
};

/// Which blocks are a stage's first ones, and so made again, depends on the cut: no stage makes
/// fewer again than by the first of these, none more than by the second.
Recompute fewest_made_again(Recompute recompute);
Recompute most_made_again(Recompute recompute);

/// One layout and its schedule; `chunks` where the schedule asks how many.
struct ClusterShape {
  ClusterFrame frame;
  const ScheduleTraits* schedule = nullptr;
  std::uint16_t chunks = 1;
  friend auto operator<=>(const ClusterShape&, const ClusterShape&) = default;
};

/// The space: tensor degrees that divide every node and can share the model's heads; depths and
/// widths within the devices, widths that divide the batch; microbatches of up to 32 samples; no,
/// selective and full recomputation, and of 2, 4, 8 … blocks together (keeping_less()); the
/// optimizer's state sharded or not. For a name that schedules do not have throws UsageError.
class ClusterSpace {
 public:
  explicit ClusterSpace(const ClusterQuestion& question);

  const std::vector<ClusterFrame>& frames() const { return frames_; }
  const std::vector<const ScheduleTraits*>& schedules() const { return schedules_; }
  const std::vector<Rejected>& rejected() const { return rejected_; }

  /// Schedules that may run in this frame: 2, 3, 4, 6 and 8 chunks where they have them. What they
  /// refuse is added to `rejected`.
  std::vector<ClusterShape> shapes(const ClusterFrame& frame,
                                   std::vector<Rejected>& rejected) const;

  /// Of a shape that makes all blocks again: the same with twice as many of them made again
  /// together, which takes as long and keeps fewer of their inputs. Empty: recomputation is given,
  /// or no stage has so many.
  std::optional<ClusterShape> keeping_less(const ClusterShape& shape) const;

 private:
  std::vector<std::int32_t> tensors() const;
  void add_frames(std::int32_t tensor);
  void add_batches(ClusterFrame frame);

  const ClusterQuestion& question_;
  std::vector<Rejected> rejected_;
  std::vector<const ScheduleTraits*> schedules_;
  std::vector<std::int32_t> slices_;
  std::vector<Recompute> recomputes_;
  std::vector<bool> shardings_{false, true};
  std::vector<ClusterFrame> frames_;
};

/// The plan of a shape, without its stages.
Plan plan_of(const ClusterQuestion& question, const ClusterShape& shape);

/// Asks for this layout in the question's cut and order, or in that of neighbouring replicas.
ClusterRequest request_of(const ClusterQuestion& question, const ClusterShape& shape);

/// What is assumed of its devices: groups of its tensor degree, whose members share the sequence,
/// too, where it comes out even (Megatron's sequence parallelism).
AnalyticAssumptions assumptions_of(const ClusterQuestion& question, const ClusterFrame& frame);

/// "interleaved, tensor 8 x depth 16 x width 8, 4 chunks, microbatches 1 x 192, recompute full".
std::string describe(const ClusterShape& shape);

}  // namespace tandem
