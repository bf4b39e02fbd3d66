#pragma once
// What a stage does, for whoever instantiates it: a backend over its own kernels, each once.

#include <algorithm>
#include <utility>

#include "core/memory/recomputed_layers.h"
#include "core/schedule/schedule.h"
#include "executor/stage/stage.h"

namespace tandem {

template <Kernels K>
Stage<K>::Stage(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                double loss_scale, Recompute recompute)
    : drops_(recompute == Recompute::selective) {
  const auto count = static_cast<std::int32_t>(layers_of(model).size());
  TANDEM_CHECK(0 <= layers.first && layers.first < layers.last && layers.last <= count,
               layers.first, layers.last, count);
  first_ = layers.first == 0;
  last_ = layers.last == count;
  reads_numbers_ = first_ && model.architecture == Architecture::linear;
  const LayerShape shape{.model = model,
                         .microbatch_size = microbatch_size,
                         .loss_scale = loss_scale,
                         .recompute = recompute};
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    places_.push_back(Place{.layer = AnyLayer<K>(shape, layer)});
    append_tensors(places_.back().layer.tensors(), parameters_);
  }
  tied_ = tied_ranges(model, parameters_);
  find_blocks(model, layers, recompute);
  lay_out(shape.boundary());
}

template <Kernels K>
void Stage<K>::find_blocks(const ModelSpec& model, LayerRange layers, Recompute recompute) {
  for (const LayerRange range : recomputed_in_stage(model, layers, recompute)) {
    const Block block{.first = static_cast<std::size_t>(range.first),
                      .last = static_cast<std::size_t>(range.last)};
    for (std::size_t layer = block.first; layer < block.last; ++layer)
      places_[layer].block = blocks_.size();
    blocks_.push_back(block);
  }
}

template <Kernels K>
void Stage<K>::lay_out(std::int64_t boundary) {
  std::int64_t weights = 0, kept = 0, largest_scratch = 0;
  const std::int64_t inner = room<T, W>(boundary);
  std::int64_t stash = reads_numbers_ ? inner : 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    std::int64_t& in_block = place.block ? blocks_[*place.block].size : stash;
    std::int64_t& behind = ends_block(i) ? stash : in_block;
    place.weights = std::exchange(weights, weights + place.layer.weights_size());
    place.stash = std::exchange(in_block, in_block + place.layer.stash_size());
    place.scratch = std::exchange(kept, kept + place.layer.scratch_size());
    largest_scratch = std::max(largest_scratch, place.layer.scratch_size());
    if (i + 1 == places_.size()) continue;
    place.output = std::exchange(behind, behind + inner);
    place.output_gradient = std::exchange(kept, kept + inner);
  }
  for (Block& block : blocks_) {
    block.kept = std::exchange(kept, kept + block.size);
    largest_block_ = std::max(largest_block_, block.size);
  }
  const auto between = std::min<std::int64_t>(2, static_cast<std::int64_t>(places_.size()) - 1);
  sizes_ = {.parameters = weights,
            .stash = stash,
            .boundary = boundary,
            .scratch = largest_scratch + between * inner + largest_block_,
            .kept_gradients = kept};
}

template <Kernels K>
void Stage<K>::initialise(std::span<W> weights, std::uint64_t seed) const {
  check_size(weights, sizes_.parameters);
  for (const Tensor& tensor : parameters_) {
    tandem::initialise(tensor, seed, part(weights, tensor.offset, tensor.size()));
  }
}

template <Kernels K>
bool Stage<K>::ends_block(std::size_t layer) const {
  const auto& block = places_[layer].block;
  return block && layer + 1 == blocks_[*block].last;
}

template <Kernels K>
template <class U>
std::span<U> Stage<K>::stash_of(std::size_t layer, const Stashes<U>& stashes) const {
  const Place& place = places_[layer];
  return part(place.block ? stashes.block : stashes.stage, place.stash, place.layer.stash_size());
}

template <Kernels K>
template <class U>
std::span<U> Stage<K>::output_of(std::size_t layer, const Stashes<U>& stashes) const {
  const Place& place = places_[layer];
  const bool in_block = place.block && !ends_block(layer);
  return part(in_block ? stashes.block : stashes.stage, place.output, sizes_.boundary);
}

template <Kernels K>
std::span<const typename K::Scalar> Stage<K>::input_of(std::size_t layer, std::span<const T> input,
                                                       const Stashes<const T>& stashes) const {
  if (layer > 0) return output_of(layer - 1, stashes);
  return reads_numbers_ ? part(stashes.stage, 0, sizes_.boundary) : input;
}

template <Kernels K>
std::span<typename K::Scalar> Stage<K>::passing_block(std::size_t layer,
                                                      std::span<T> scratch) const {
  const auto& block = places_[layer].block;
  if (!block) return {};
  return part(scratch, sizes_.scratch - largest_block_, blocks_[*block].size);
}

template <Kernels K>
std::span<typename K::Scalar> Stage<K>::kept_block(std::size_t layer, std::span<T> kept) const {
  const auto& block = places_[layer].block;
  return block ? part(kept, blocks_[*block].kept, blocks_[*block].size) : std::span<T>();
}

template <Kernels K>
ElementRange Stage<K>::weights_of(std::size_t layer) const {
  const Place& place = places_[layer];
  return {place.weights, place.weights + place.layer.weights_size()};
}

template <Kernels K>
void Stage<K>::check(const ForwardSpans<T, W>& spans) const {
  check_size(spans.weights, sizes_.parameters);
  check_size(spans.stash, sizes_.stash);
  if (!first_) check_size(spans.input, sizes_.boundary);
  if (drops_ || !blocks_.empty()) check_size(spans.scratch, sizes_.scratch);
  TANDEM_CHECK(!spans.sample.empty() || (!first_ && !last_), first_, last_);
}

template <Kernels K>
void Stage<K>::forward(K& kernels, const ForwardSpans<T, W>& spans, const AfterLayer& after) const {
  check(spans);
  if (reads_numbers_) kernels.store(spans.sample.inputs, part(spans.stash, 0, sizes_.boundary));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const Stashes<T> stashes{spans.stash, passing_block(i, spans.scratch)};
    place.layer.forward(
        kernels,
        {.weights = part(spans.weights, place.weights, place.layer.weights_size()),
         .input = input_of(i, spans.input, {stashes.stage, stashes.block}),
         .sample = spans.sample,
         .stash = stash_of(i, stashes),
         .output = i + 1 < places_.size() ? output_of(i, stashes) : spans.output,
         .scratch = drops_ ? part(spans.scratch, 0, place.layer.scratch_size()) : std::span<T>(),
         .loss = spans.loss});
    if (after) after(i);
  }
}

template <Kernels K>
void Stage<K>::recompute(K& kernels, ForwardSpans<T, W> spans) const {
  spans.output = {};
  spans.loss = nullptr;
  forward(kernels, spans);
}

template <Kernels K>
void Stage<K>::check(const BackwardSpans<T, W>& spans, std::int64_t scratch) const {
  check_size(spans.stash, sizes_.stash);
  check_size(spans.scratch, scratch);
  if (!first_) check_size(spans.input, sizes_.boundary);
  if (!last_) check_size(spans.output_gradient, sizes_.boundary);
}

template <Kernels K>
BackwardSpans<typename K::Scalar, typename K::Wide> Stage<K>::spans_of(
    std::size_t layer, const BackwardSpans<T, W>& spans, std::int64_t scratch,
    const auto& gradient_after, std::span<T> block) const {
  const Place& place = places_[layer];
  const std::int64_t size = place.layer.weights_size();
  const auto between = [&](std::size_t after) {
    return part(spans.scratch, gradient_after(after), sizes_.boundary);
  };
  BackwardSpans<T, W> own;
  if (!spans.weights.empty()) own.weights = part(spans.weights, place.weights, size);
  if (!spans.gradients.empty()) own.gradients = part(spans.gradients, place.weights, size);
  const Stashes<const T> stashes{spans.stash, block};
  own.input = input_of(layer, spans.input, stashes);
  own.stash = stash_of(layer, stashes);
  own.output_gradient = layer + 1 < places_.size() ? between(layer) : spans.output_gradient;
  own.scratch = part(spans.scratch, scratch, place.layer.scratch_size());
  own.input_gradient = layer > 0 ? between(layer - 1) : spans.input_gradient;
  return own;
}

template <Kernels K>
BackwardSpans<typename K::Scalar, typename K::Wide> Stage<K>::passing_spans_of(
    std::size_t layer, const BackwardSpans<T, W>& spans) const {
  const std::int64_t buffers = std::min<std::int64_t>(2, std::ssize(places_) - 1);
  const std::int64_t step = room<T, W>(sizes_.boundary);
  // The gradient after layer i lies in buffer i mod 2, but for the last layer, where it was handed
  // in.
  const auto gradient_after = [&](std::size_t after) {
    return static_cast<std::int64_t>(after % 2) % buffers * step;
  };
  return spans_of(layer, spans, buffers * step, gradient_after,
                  passing_block(layer, spans.scratch));
}

template <Kernels K>
BackwardSpans<typename K::Scalar, typename K::Wide> Stage<K>::kept_spans_of(
    std::size_t layer, const BackwardSpans<T, W>& spans) const {
  const auto gradient_after = [this](std::size_t after) { return places_[after].output_gradient; };
  return spans_of(layer, spans, places_[layer].scratch, gradient_after,
                  kept_block(layer, spans.scratch));
}

template <Kernels K>
void Stage<K>::make_again(K& kernels, const BackwardSpans<T, W>& spans, const Block& block,
                          std::span<T> stashes, const AfterLayer& after) const {
  const Stashes<T> parts{{}, stashes};
  for (std::size_t i = block.first; i < block.last; ++i) {
    const Place& place = places_[i];
    place.layer.forward(kernels,
                        {.weights = part(spans.weights, place.weights, place.layer.weights_size()),
                         .input = input_of(i, spans.input, {spans.stash, stashes}),
                         .stash = stash_of(i, parts),
                         .output = ends_block(i) ? std::span<T>() : output_of(i, parts)});
    if (after) after(i);
  }
}

template <Kernels K>
void Stage<K>::recompute_block(K& kernels, const BackwardSpans<T, W>& spans, std::size_t block,
                               const AfterLayer& after) const {
  const Block& again = blocks_[block];
  make_again(kernels, spans, again, passing_block(again.first, spans.scratch), after);
}

template <Kernels K>
void Stage<K>::recompute_dropped(K& kernels, const BackwardSpans<T, W>& spans,
                                 std::size_t layer) const {
  places_[layer].layer.recompute(kernels, passing_spans_of(layer, spans));
}

template <Kernels K>
void Stage<K>::backward(K& kernels, const BackwardSpans<T, W>& spans,
                        const AfterLayer& after) const {
  check(spans, sizes_.scratch);
  check_size(spans.weights, sizes_.parameters);
  check_size(spans.gradients, sizes_.parameters);
  for (std::size_t i = places_.size(); i-- > 0;) {
    if (ends_block(i)) recompute_block(kernels, spans, *places_[i].block, {});
    const BackwardSpans<T, W> own = passing_spans_of(i, spans);
    places_[i].layer.backward_input(kernels, own);
    places_[i].layer.backward_weight(kernels, own);
    if (after) after(i);
  }
}

template <Kernels K>
void Stage<K>::backward_input(K& kernels, const BackwardSpans<T, W>& spans,
                              const AfterLayer& after) const {
  check(spans, sizes_.kept_gradients);
  check_size(spans.weights, sizes_.parameters);
  for (std::size_t i = places_.size(); i-- > 0;) {
    if (ends_block(i))
      make_again(kernels, spans, blocks_[*places_[i].block], kept_block(i, spans.scratch), {});
    places_[i].layer.backward_input(kernels, kept_spans_of(i, spans));
    if (after) after(i);
  }
}

template <Kernels K>
void Stage<K>::backward_weight(K& kernels, const BackwardSpans<T, W>& spans,
                               const AfterLayer& after) const {
  check(spans, sizes_.kept_gradients);
  check_size(spans.gradients, sizes_.parameters);
  for (std::size_t i = places_.size(); i-- > 0;) {
    places_[i].layer.backward_weight(kernels, kept_spans_of(i, spans));
    if (after) after(i);
  }
}

}  // namespace tandem
