#include "planner/cluster/least_memory.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/plan.h"

namespace tandem {

double LeastMemory::of(const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  const auto [place, unknown] =
      whole_.try_emplace({frame.tensor, frame.microbatch_size, frame.slices, frame.recompute,
                          frame.sharded_optimizer ? frame.width : 1});
  Plan plan = plan_of(question_, shape);
  // So many of each stage's blocks are made again: all, where stages have no more.
  if (frame.recompute.kind == Recompute::Kind::blocks) plan.request.recompute = Recompute::full;
  const AnalyticAssumptions assumptions = assumptions_of(question_, frame);
  if (unknown) {
    try {
      place->second = analytic_stage_bytes(
          plan.model, {0, static_cast<std::int32_t>(layers_of(plan.model).size())},
          plan.microbatch_size, plan.optimizer, plan.request.recompute, assumptions,
          optimizer_shards(plan, assumptions), sequence_parts(plan.request.slices, plan.model));
    } catch (const InputError&) {
      place->second = {};  // more than is counted at once; nothing is known of parts
    }
  }
  const StageBytes& all = place->second;
  const auto inner = static_cast<double>(stage_count(plan)) *
                     static_cast<double>(all[SlotKind::input]) * frame.slices;
  // What a whole stage makes again is not held meanwhile.
  const double again = frame.recompute == Recompute::stage ? all.framework.remade : 0.0;
  const double activations = std::max(0.0, all.framework.all - again - inner);
  const double needed =
      static_cast<double>(all[SlotKind::weights] + all[SlotKind::gradients] + all.optimizer) +
      activations;
  return needed / frame.depth;
}

}  // namespace tandem
