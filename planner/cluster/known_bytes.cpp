#include "planner/cluster/known_bytes.h"

#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

RangeBytes analytic_range_bytes(const Plan& plan, const AnalyticAssumptions& assumptions) {
  const std::int32_t shards = optimizer_shards(plan, assumptions);
  return RangeBytes([model = plan.model, optimizer = plan.optimizer, assumptions, shards](
                        LayerRange range, std::int32_t microbatch_size, Recompute recompute,
                        const Slicing& slices) {
    return analytic_stage_bytes(model, range, microbatch_size, optimizer, recompute, assumptions,
                                shards, sequence_parts(slices, model));
  });
}

RangeBytes& KnownBytes::of(const Plan& plan, const AnalyticAssumptions& assumptions) {
  constexpr std::size_t kMostRanges = 1 << 11;  // of some kilobytes each, where they have slices
  std::size_t ranges = 0;
  for (const auto& [key, bytes] : known_) ranges += bytes.size();
  if (ranges > kMostRanges) known_.clear();
  const std::tuple key(assumptions.tensor, assumptions.sequence_parallel,
                       optimizer_shards(plan, assumptions));
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, analytic_range_bytes(plan, assumptions)).first->second;
}

}  // namespace tandem
