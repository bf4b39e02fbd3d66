#include "core/memory/stage_bytes.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/memory/storage.h"

namespace tandem {

StageBytes stage_bytes(const std::vector<LayerBytes>& layers, Bytes boundary, Recompute recompute,
                       bool stashes_input) {
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
