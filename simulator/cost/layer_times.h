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
  LayerTimes(const ModelSpec& model, const std::vector<StageTimes>& layers, Recompute recompute,
             Duration overhead = {});
  /// Of a stage: its backward makes the blocks again that `recompute` names.
  StageTimes of(LayerRange range) const;
  /// What each layer of a stage takes of these times.
  std::vector<StageTimes> each_of(LayerRange range) const;
  std::int32_t layers() const { return static_cast<std::int32_t>(sums_.size()) - 1; }

 private:
  StageTimes sum(LayerRange range) const;
  /// What the backward of a stage makes again.
  Duration again(LayerRange range) const;

  ModelSpec model_;
  Recompute recompute_;
  Duration overhead_{};
  std::vector<StageTimes> sums_;        // of the layers before
  std::vector<Duration> blocks_again_;  // the same of their recomputation, where blocks have them
};

/// Of a model's layers. `times_of` is asked once for each kind.
template <class TimesOf>
LayerTimes times_of_layers(const ModelSpec& model, TimesOf times_of, Recompute recompute,
                           Duration overhead = {}) {
  std::array<std::optional<StageTimes>, kLayerKinds> known;
  std::vector<StageTimes> layers;
  const std::vector<LayerKind> kinds = layers_of(model);
  layers.reserve(kinds.size());
  for (const LayerKind kind : kinds) {
    std::optional<StageTimes>& times = known[static_cast<std::size_t>(kind)];
    if (!times) times = times_of(kind);
    layers.push_back(*times);
  }
  return LayerTimes(model, layers, recompute, overhead);
}

}  // namespace tandem
