#pragma once
// Megatron-LM's --pipeline-model-parallel-layout: "Et*3|(tt|)*2,tL", E the embedding, t a block, L
// the head, stages between bars.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace tandem {

/// The layers of each stage, counted as layers_of() does. Empty: it is no layout of one embedding,
/// so many blocks and one head, in this order, or some stage is empty.
std::optional<std::vector<LayerRange>> parse_megatron_layout(std::string_view text,
                                                             std::int32_t blocks);

}  // namespace tandem
