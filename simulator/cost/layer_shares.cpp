#include "simulator/cost/layer_shares.h"

#include <cmath>

#include "core/base/check.h"

namespace tandem {

LayerShares layer_shares(const Plan& plan, const StageCosts& costs) {
  LayerShares shares{.kinds = layers_of(plan.model),
                     .stages = plan.stages,
                     .parts = costs.parts,
                     .layers = costs.layers};
  TANDEM_CHECK(shares.layers.size() == shares.kinds.size(), shares.layers.size());
  TANDEM_CHECK(shares.parts.size() == shares.stages.size(), shares.parts.size());
  return shares;
}

std::vector<PartId> parts_of_layers(const LayerShares& shares) {
  std::vector<PartId> parts;
  for (const PartId part : ids(shares.parts)) {
    const auto layers = static_cast<std::size_t>(shares.stages[index(part)].size());
    parts.insert(parts.end(), layers, part);
  }
  return parts;
}

CostTable priced_share(const Program& program, const CostTable& costs, const LayerShares& shares,
                       const std::vector<std::size_t>& layers) {
  const std::vector<PartId> parts = parts_of_layers(shares);
  Table<PartId, StageTimes> taken(shares.parts.size());
  for (const std::size_t layer : layers) {
    for (const auto time : kOpTimes) taken[parts[layer]].*time += shares.layers[layer].*time;
  }
  CostTable table(costs.size());
  for (const CostId cost : ids(costs)) {
    const CostKey& key = program.cost_keys()[cost];
    const PartId part = program.placement().part[key.stage];
    const Duration whole = compute_lane_time(key.kind, shares.parts[part]);
    if (whole == Duration{}) continue;
    const Duration layers_time = compute_lane_time(key.kind, taken[part]);
    const double share =
        static_cast<double>(layers_time.count()) / static_cast<double>(whole.count());
    table[cost] = Duration(std::llround(share * static_cast<double>(costs[cost].count())));
  }
  return table;
}

}  // namespace tandem
