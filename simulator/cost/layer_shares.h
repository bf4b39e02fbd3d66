#pragma once
// LayerShares: what single layers of a model take of the prices of the stages that hold them.

#include <cstddef>
#include <vector>

#include "core/model/model.h"
#include "core/model/plan.h"
#include "core/program/cost.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Times of stages that are the sums of their layers, beside what is no layer's.
struct LayerShares {
  std::vector<LayerKind> kinds;    // of each layer
  std::vector<LayerRange> stages;  // of each stage
  Table<StageId, StageTimes> times;
  std::vector<StageTimes> layers;  // each as its stage's times count it
  /// Where sequences are sliced, the times of each slice instead; else empty.
  std::vector<StageCosts> slices = {};
};

/// REQUIRES: the costs are of the plan's layers (StageCosts::layers).
LayerShares layer_shares(const Plan& plan, const StageCosts& costs);

/// The stage that holds each layer.
std::vector<StageId> stages_of_layers(const LayerShares& shares);

/// What these layers take together of each price: of an op's what they take of its stage's time, of
/// a transfer's or a sum's nothing. Prices may be those of slower devices.
CostTable priced_share(const Program& program, const CostTable& costs, const LayerShares& shares,
                       const std::vector<std::size_t>& layers);

}  // namespace tandem
