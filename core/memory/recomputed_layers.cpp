#include "core/memory/recomputed_layers.h"

#include <algorithm>
#include <cstddef>

namespace tandem {

namespace {

std::vector<LayerRange> blocks_of(const ModelSpec& model, LayerRange stage) {
  const std::vector<LayerKind> kinds = layers_of(model);
  std::vector<LayerRange> blocks;
  for (std::int32_t layer = stage.first; layer < stage.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    const bool follows = is_mlp(kind) && layer > stage.first;
    if (follows) {
      blocks.back().last = layer + 1;
    } else if (kind == LayerKind::attention || is_mlp(kind) ||
               kind == LayerKind::linear) {
      blocks.push_back({layer, layer + 1});
    }
  }
  return blocks;
}

}  // namespace

std::vector<LayerRange> recomputed_layers(const ModelSpec& model, LayerRange stage,
                                          Recompute recompute) {
  if (!recompute.by_block()) return {};
  std::vector<LayerRange> blocks = blocks_of(model, stage);
  const std::size_t count = recompute.count;
  if (recompute.kind == Recompute::Kind::blocks) {
    blocks.resize(std::min(blocks.size(), count));
    return blocks;
  }
  std::vector<LayerRange> groups;
  for (std::size_t first = 0; first < blocks.size(); first += count) {
    const std::size_t last = std::min(first + count, blocks.size()) - 1;
    groups.push_back({blocks[first].first, blocks[last].last});
  }
  return groups;
}

std::vector<LayerRange> recomputed_in_stage(const ModelSpec& model, LayerRange stage,
                                            Recompute recompute) {
  std::vector<LayerRange> groups = recomputed_layers(model, stage, recompute);
  for (LayerRange& group : groups) group = {group.first - stage.first, group.last - stage.first};
  return groups;
}

}  // namespace tandem
