#pragma once
// Bytes of a stage's slots from those of its layers.

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/memory/memory.h"
#include "core/model/model.h"

namespace tandem {

/// What a layer takes, for one microbatch where that matters.
struct LayerBytes {
  Bytes weights = 0, gradients = 0, optimizer = 0;
  Bytes stash = 0;     // forward → last gradient op, but for its input
  Bytes kept = 0;      // of a split backward: from input- to weight-gradient
  Bytes scratch = 0;   // while its backward runs
  Bytes update = 0;    // while its update runs
  Bytes context = 0;   // of the stash, keys and values: where sequences are sliced, later slices
                       // read them, so that they stay where the rest is made again
  Bytes products = 0;  // inputs of its products and gradients of their outputs: what a framework
                       // holds from input- to weight-gradient (arXiv 2401.10241, table 1)
};

/// What the layers of a range stash, and the boundaries between them.
inline Pieces stash_of(const std::vector<LayerBytes>& layers, LayerRange range, Bytes boundary) {
  Pieces pieces;
  if (range.size() > 1) pieces[boundary] = range.size() - 1;
  for (std::int32_t layer = range.first; layer < range.last; ++layer)
    ++pieces[layers[static_cast<std::size_t>(layer)].stash];
  return pieces;
}

/// The slots of a stage that holds these layers. What crosses a boundary between two layers,
/// `boundary` bytes, is stashed behind each but the last; before the first too if `stashes_input`,
/// where no transfer brings it. Layers that are made again, `recomputed` counted from the stage's
/// first, stash nothing but what is behind the last of each range: they stand in the workspace, a
/// range at a time, and in what a split backward keeps. REQUIRES: a layer at least.
inline StageBytes stage_bytes(const std::vector<LayerBytes>& layers, Bytes boundary,
                              const std::vector<LayerRange>& recomputed = {},
                              bool stashes_input = false) {
  TANDEM_CHECK(!layers.empty());
  const auto count = static_cast<std::int32_t>(layers.size());
  const Bytes inner = count - 1;
  StageBytes bytes;
  Pieces stash = stash_of(layers, {0, count}, boundary);
  if (stashes_input) ++stash[boundary];
  Bytes kept = inner * boundary, scratch = 0, again = 0, update = 0, products = 0;
  for (const LayerBytes& layer : layers) {
    bytes[SlotKind::weights] += layer.weights;
    bytes[SlotKind::gradients] += layer.gradients;
    bytes.optimizer += layer.optimizer;
    kept += layer.kept;
    scratch = std::max(scratch, layer.scratch);
    update = std::max(update, layer.update);
    products += layer.products;
    if (layer.context > 0) ++bytes.pieces.context[layer.context];
  }
  for (const LayerRange range : recomputed) {
    const Pieces of_range = stash_of(layers, range, boundary);
    for (const auto& [size, pieces] : of_range) stash[size] -= pieces;
    for (std::int32_t layer = range.first; layer < range.last; ++layer) {
      const Bytes context = layers[static_cast<std::size_t>(layer)].context;
      if (context > 0) ++stash[context];
    }
    kept += total_of(of_range);
    again = std::max(again, total_of(of_range));
  }
  const Bytes stashed = total_of(stash);
  bytes.pieces.stash = std::move(stash);
  bytes[SlotKind::context] = total_of(bytes.pieces.context);
  for (const SlotKind kind : {SlotKind::stash, SlotKind::eviction_buffer, SlotKind::hosted_stash}) {
    bytes[kind] = stashed;
  }
  for (const SlotKind kind : {SlotKind::input, SlotKind::output, SlotKind::input_gradient})
    bytes[kind] = boundary;
  bytes[SlotKind::kept_gradients] = kept;
  for (const SlotKind kind : {SlotKind::forward_weights, SlotKind::backward_weights})
    bytes[kind] = bytes[SlotKind::weights];
  bytes.drift = bytes[SlotKind::gradients];  // a sum of changes, as exact as one of gradients
  // Of a whole backward: one layer's scratch at a time, and the gradients on its two sides; of a
  // single layer the one that it may have to write over. An update runs at another time.
  bytes.workspace = std::max(scratch + std::clamp<Bytes>(inner, 1, 2) * boundary + again, update);
  bytes.forward_workspace = stashed;
  bytes.framework = {static_cast<double>(stashed), static_cast<double>(products)};
  return bytes;
}

/// Of a stage that works on slices, from what it would take of each alone: slots with room for any
/// of them, and `context_gradient` of all tokens. REQUIRES: a slice at least.
inline StageBytes of_slices(const std::vector<StageBytes>& each, Bytes context_gradient) {
  TANDEM_CHECK(!each.empty());
  StageBytes bytes = each.front();
  bytes.framework = {0.0, 0.0};
  for (const StageBytes& slice : each) {
    for (std::size_t kind = 0; kind < kSlotKinds; ++kind)
      bytes.slot[kind] = std::max(bytes.slot[kind], slice.slot[kind]);
    bytes.workspace = std::max(bytes.workspace, slice.workspace);
    bytes.forward_workspace = std::max(bytes.forward_workspace, slice.forward_workspace);
    bytes.framework.all += slice.framework.all;
    bytes.framework.after_input += slice.framework.after_input;
    bytes.framework.remade += slice.framework.remade;
    bytes.slices.push_back({slice.pieces, slice.framework});
  }
  bytes[SlotKind::context_gradient] = context_gradient;
  return bytes;
}

}  // namespace tandem
