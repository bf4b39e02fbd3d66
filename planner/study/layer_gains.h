#pragma once
// What sensitivities say of the layers of a model: each, those of a kind, and those that would
// gain most.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "simulator/analysis/sensitivity.h"

namespace tandem {

/// Of a layer, or of several together.
struct LayerGain {
  std::vector<std::size_t> layers;
  std::optional<CriticalShare> period;  // absent: no repetition was seen
  CriticalShare makespan;
};

struct LayerGains {
  std::vector<LayerKind> kinds;   // of each layer
  std::vector<StageId> stages;    // that hold them
  std::vector<LayerGain> each;    // in order
  std::vector<LayerGain> alike;   // all of a kind together, of each kind
  std::vector<LayerGain> most;    // of a few layers, those that gain most
  std::optional<LayerGain> rest;  // all other layers together, where there are any
};

/// `period`: null where no repetition was seen.
LayerGains layer_gains(const LayerShares& shares, const CriticalPaths* period,
                       const CriticalPaths& makespan);

/// "layer 3, mlp", "24 attention layers".
std::string name(const LayerGains& gains, const LayerGain& gain);

}  // namespace tandem
