#pragma once
// LayerTimes: times of any range of a model's layers, from prefix sums.

#include <array>
#include <cstdint>
#include <optional>
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

/// Of a model's layers. `times_of` is asked once for each kind.
template <class TimesOf>
LayerTimes times_of_layers(const ModelSpec& model, TimesOf times_of, Duration overhead = {}) {
  std::array<std::optional<StageTimes>, kLayerKinds> known;
  std::vector<StageTimes> layers;
  for (const LayerKind kind : layers_of(model)) {
    std::optional<StageTimes>& times = known[static_cast<std::size_t>(kind)];
    if (!times) times = times_of(kind);
    layers.push_back(*times);
  }
  return LayerTimes(layers, overhead);
}

}  // namespace tandem
