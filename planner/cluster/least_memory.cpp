#include "planner/cluster/least_memory.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/plan.h"

namespace tandem {

Bytes most_usable(const ClusterQuestion& question) {
  const Cluster& cluster = *question.base.cluster;
  Bytes most = 0;
  for (std::size_t device = 0; device < cluster.size(); ++device) {
    most = std::max(most, question.base.assumptions.reserve.usable(
                              cluster[id_at<DeviceId>(device)].memory_bytes));
  }
  return most;
}

const StageBytes& LeastMemory::whole(const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  const auto [place, unknown] =
      whole_.try_emplace({frame.tensor, frame.microbatch_size, frame.slices, frame.recompute,
                          frame.sharded_optimizer ? frame.width : 1});
  if (!unknown) return place->second;
  Plan plan = plan_of(question_, shape);
  plan.request.recompute = most_made_again(frame.recompute);
  const AnalyticAssumptions assumptions = assumptions_of(question_, frame);
  try {
    place->second = analytic_stage_bytes(
        plan.model, {0, static_cast<std::int32_t>(layers_of(plan.model).size())},
        plan.microbatch_size, plan.optimizer, plan.request.recompute, assumptions,
        optimizer_shards(plan, assumptions), sequence_parts(plan.request.slices, plan.model));
  } catch (const InputError&) {
    place->second = {};  // more than is counted at once; nothing is known of parts
  }
  return place->second;
}

double LeastMemory::lasting(const ClusterShape& shape) {
  const StageBytes& all = whole(shape);
  return static_cast<double>(all[SlotKind::weights] + all[SlotKind::gradients] + all.optimizer);
}

double LeastMemory::of(const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  const StageBytes& all = whole(shape);
  const auto inner = static_cast<double>(stage_count(plan_of(question_, shape))) *
                     static_cast<double>(all[SlotKind::input]) * frame.slices;
  // What a whole stage makes again is not held meanwhile.
  const double again = frame.recompute == Recompute::stage ? all.framework.remade : 0.0;
  const double activations = std::max(0.0, all.framework.all - again - inner);
  return (lasting(shape) + activations) / frame.depth;
}

}  // namespace tandem
