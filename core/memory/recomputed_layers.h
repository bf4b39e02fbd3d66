#pragma once
// Which layers of a stage are made again together.

#include <vector>

#include "core/model/model.h"
#include "core/schedule/recompute.h"

namespace tandem {

/// The layers of `stage` that a backward makes again from the input of the first of them, each
/// group in turn. A block is an attention layer and the mlp behind it, or whichever of them the
/// stage has; of a linear model each product. Embeddings, the head and the loss are kept. Empty
/// where nothing is made again by block.
std::vector<LayerRange> recomputed_layers(const ModelSpec& model, LayerRange stage,
                                          Recompute recompute);
/// The same, counted from the stage's first layer.
std::vector<LayerRange> recomputed_in_stage(const ModelSpec& model, LayerRange stage,
                                            Recompute recompute);

}  // namespace tandem
