#pragma once
// LayerTimes: times of any range of a model's layers, from prefix sums.

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

class LayerTimes {
 public:
  /// `overhead`: of each op of a stage, beside its layers.
  explicit LayerTimes(const std::vector<StageTimes>& layers, Duration overhead = {});
  StageTimes of(LayerRange range) const;
  /// What the layer takes of its stage's times.
  StageTimes alone(std::int32_t layer) const { return sum({layer, layer + 1}); }
  std::int32_t layers() const { return static_cast<std::int32_t>(sums_.size()) - 1; }

 private:
  StageTimes sum(LayerRange range) const;

  Duration overhead_{};
  std::vector<StageTimes> sums_;  // of the layers before
};

}  // namespace tandem
