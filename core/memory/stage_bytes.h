#pragma once
// Bytes of a stage's slots from those of its layers.

#include <vector>

#include "core/base/units.h"
#include "core/memory/memory.h"
#include "core/model/model.h"

namespace tandem {

/// What a layer takes, for one microbatch where that matters.
struct LayerBytes {
  Bytes weights = 0, gradients = 0, optimizer = 0;
  Bytes stash = 0;    // forward → last gradient op, but for its input
  Bytes kept = 0;     // of a split backward: from input- to weight-gradient
  Bytes scratch = 0;  // while its backward runs
};

/// The slots of a stage that holds these layers. What crosses a boundary between two layers,
/// `boundary` bytes, is stashed behind each but the last; before the first too if `stashes_input`,
/// where no transfer brings it. Layers that are made again, `recomputed` counted from the stage's
/// first, stash nothing but what is behind the last of each range: they stand in the workspace, a
/// range at a time, and in what a split backward keeps. REQUIRES: a layer at least.
StageBytes stage_bytes(const std::vector<LayerBytes>& layers, Bytes boundary,
                       const std::vector<LayerRange>& recomputed = {}, bool stashes_input = false);

}  // namespace tandem
