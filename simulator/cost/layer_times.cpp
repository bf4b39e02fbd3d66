#include "simulator/cost/layer_times.h"

#include "core/memory/recomputed_layers.h"

namespace tandem {

namespace {

void add_recomputation(Duration again, StageTimes& times) {
  times.backward += again;
  times.backward_input += again;
}

}  // namespace

LayerTimes::LayerTimes(const ModelSpec& model, const std::vector<StageTimes>& layers,
                       Recompute recompute, Duration overhead)
    : model_(model), recompute_(recompute), overhead_(overhead) {
  sums_.reserve(layers.size() + 1);
  sums_.emplace_back();
  for (const StageTimes& times : layers) {
    StageTimes sum = sums_.back();
    for (const auto time : kOpTimes) sum.*time += times.*time;
    sums_.push_back(sum);
  }
  const std::vector<LayerKind> kinds = layers_of(model);
  blocks_again_.reserve(layers.size() + 1);
  blocks_again_.emplace_back();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool in_block = kinds[i] == LayerKind::attention || is_mlp(kinds[i]) ||
                          kinds[i] == LayerKind::linear;
    blocks_again_.push_back(blocks_again_.back() + (in_block ? layers[i].recompute : Duration{}));
  }
}

StageTimes LayerTimes::sum(LayerRange range) const {
  const StageTimes& before = sums_[static_cast<std::size_t>(range.first)];
  StageTimes times = sums_[static_cast<std::size_t>(range.last)];
  for (const auto time : kOpTimes) times.*time -= before.*time;
  return times;
}

Duration LayerTimes::again(LayerRange range) const {
  const auto of_blocks = [this](LayerRange layers) {
    return blocks_again_[static_cast<std::size_t>(layers.last)] -
           blocks_again_[static_cast<std::size_t>(layers.first)];
  };
  // However many at a time, all blocks are made again.
  if (recompute_.kind == Recompute::Kind::uniform) return of_blocks(range);
  Duration sum{};
  for (const LayerRange block : recomputed_layers(model_, range, recompute_))
    sum += of_blocks(block);
  return sum;
}

StageTimes LayerTimes::of(LayerRange range) const {
  StageTimes times = sum(range);
  add_recomputation(again(range), times);
  for (const auto time : kOpTimes) times.*time += overhead_;
  return times;
}

std::vector<StageTimes> LayerTimes::each_of(LayerRange range) const {
  std::vector<StageTimes> each;
  for (std::int32_t layer = range.first; layer < range.last; ++layer)
    each.push_back(sum({layer, layer + 1}));
  for (const LayerRange block : recomputed_layers(model_, range, recompute_)) {
    for (std::int32_t layer = block.first; layer < block.last; ++layer) {
      StageTimes& times = each[static_cast<std::size_t>(layer - range.first)];
      add_recomputation(times.recompute, times);
    }
  }
  return each;
}

}  // namespace tandem
