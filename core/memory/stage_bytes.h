#pragma once
// Bytes of a stage's slots from those of its layers.

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/memory/memory.h"
#include "core/schedule/schedule.h"

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
/// where no transfer brings it. REQUIRES: a layer at least.
inline StageBytes stage_bytes(const std::vector<LayerBytes>& layers, Bytes boundary,
                              Recompute recompute, bool stashes_input = false) {
  TANDEM_CHECK(!layers.empty());
  const auto inner = static_cast<Bytes>(layers.size()) - 1;
  StageBytes bytes;
  Bytes stash = (inner + (stashes_input ? 1 : 0)) * boundary, kept = inner * boundary, scratch = 0;
  for (const LayerBytes& layer : layers) {
    bytes[SlotKind::weights] += layer.weights;
    bytes[SlotKind::gradients] += layer.gradients;
    bytes.optimizer += layer.optimizer;
    stash += layer.stash;
    kept += layer.kept;
    scratch = std::max(scratch, layer.scratch);
  }
  for (const SlotKind kind : {SlotKind::stash, SlotKind::eviction_buffer, SlotKind::hosted_stash})
    bytes[kind] = stash;
  for (const SlotKind kind :
       {SlotKind::input, SlotKind::output, SlotKind::output_gradient, SlotKind::input_gradient}) {
    bytes[kind] = boundary;
  }
  bytes[SlotKind::kept_gradients] = kept;
  // Of a whole backward: one layer's scratch at a time, and the gradients on its two sides.
  bytes.workspace = scratch + std::min<Bytes>(2, inner) * boundary;
  if (recompute == Recompute::full) bytes.forward_workspace = stash;
  return bytes;
}

}  // namespace tandem
