#include "simulator/cost/layer_shares.h"

#include <cmath>

#include "core/base/check.h"

namespace tandem {

LayerShares layer_shares(const Plan& plan, const StageCosts& costs) {
  LayerShares shares{.kinds = layers_of(plan.model),
                     .stages = plan.stages,
                     .times = costs.stages,
                     .layers = costs.layers,
                     .slices = costs.slices};
  TANDEM_CHECK(shares.layers.size() == shares.kinds.size(), shares.layers.size());
  TANDEM_CHECK(shares.times.size() == shares.stages.size(), shares.times.size());
  return shares;
}

std::vector<StageId> stages_of_layers(const LayerShares& shares) {
  std::vector<StageId> stages;
  for (const StageId stage : ids(shares.times)) {
    const auto layers = static_cast<std::size_t>(shares.stages[index(stage)].size());
    stages.insert(stages.end(), layers, stage);
  }
  return stages;
}

CostTable priced_share(const Program& program, const CostTable& costs, const LayerShares& shares,
                       const std::vector<std::size_t>& layers) {
  const std::vector<StageId> stages = stages_of_layers(shares);
  const auto taken_of = [&](const std::vector<StageTimes>& times) {
    Table<StageId, StageTimes> taken(shares.times.size());
    for (const std::size_t layer : layers) {
      for (const auto time : kOpTimes) taken[stages[layer]].*time += times[layer].*time;
    }
    return taken;
  };
  const Table<StageId, StageTimes> taken = taken_of(shares.layers);
  std::vector<Table<StageId, StageTimes>> taken_of_slices;
  for (const StageCosts& slice : shares.slices) taken_of_slices.push_back(taken_of(slice.layers));
  CostTable table(costs.size());
  for (const CostId cost : ids(costs)) {
    const CostKey& key = program.cost_keys()[cost];
    const StageId stage = program.placement().stage[key.replica];
    const bool of_slice = !shares.slices.empty() && is_compute(key.kind);
    const auto& times = of_slice ? shares.slices[key.slice].stages : shares.times;
    const Duration whole = compute_lane_time(key.kind, times[stage]);
    if (whole == Duration{}) continue;
    const Duration layers_time =
        compute_lane_time(key.kind, (of_slice ? taken_of_slices[key.slice] : taken)[stage]);
    const double share =
        static_cast<double>(layers_time.count()) / static_cast<double>(whole.count());
    table[cost] = Duration(std::llround(share * static_cast<double>(costs[cost].count())));
  }
  return table;
}

}  // namespace tandem
