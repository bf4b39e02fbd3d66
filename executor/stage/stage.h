#pragma once
// Stage: consecutive layers of a model as one thing to run. Owns no tensor memory and keeps no
// state: every span is handed in, so one stage serves any number of microbatches in flight, and any
// thread. The same inputs give the same bits, and so does the same model cut otherwise.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/memory/recomputed_layers.h"
#include "core/schedule/schedule.h"
#include "executor/layers/all.h"
#include "executor/stage/stage_sizes.h"
#include "executor/stage/stash_spans.h"

namespace tandem {

template <Kernels K>
class Stage {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;

  /// `loss_scale`: what the gradient of the loss summed over tokens is multiplied with; 1 / (B·T·m)
  /// for the mean over a batch. REQUIRES: layers non-empty and inside the model (checked).
  /// Selective recomputation, and that of blocks, move a part of the stash into scratch; the bits
  /// stay the same. Of a slice, sizes and samples are those of its tokens.
  Stage(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size, double loss_scale,
        Recompute recompute = Recompute::none, Slice slice = {})
      : drops_(recompute == Recompute::selective),
        again_(recompute == Recompute::stage),
        slice_(std::move(slice)) {
    if (slice_.tokens == 0) slice_.tokens = model.sequence;
    const auto count = static_cast<std::int32_t>(layers_of(model).size());
    TANDEM_CHECK(0 <= layers.first && layers.first < layers.last && layers.last <= count,
                 layers.first, layers.last, count);
    first_ = layers.first == 0;
    last_ = layers.last == count;
    reads_numbers_ = first_ && model.architecture == Architecture::linear;
    const LayerShape shape{.model = model,
                           .microbatch_size = microbatch_size,
                           .loss_scale = loss_scale,
                           .recompute = recompute,
                           .slice = slice_};
    for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
      places_.push_back(Place{.layer = AnyLayer<K>(shape, layer)});
      append_tensors(places_.back().layer.tensors(), parameters_);
    }
    tied_ = tied_ranges(model, parameters_);
    find_blocks(model, layers, recompute);
    lay_out(shape.boundary());
  }

  const StageSizes& sizes() const { return sizes_; }
  /// In the order of their offsets, without gaps. Names are global: block3.attention.qkv.weight.
  const std::vector<Tensor>& parameters() const { return parameters_; }
  const TiedRanges& tied() const { return tied_; }
  const Slice& slice() const { return slice_; }
  bool is_first() const { return first_; }
  bool is_last() const { return last_; }

  /// The same numbers for every partition of the model.
  void initialise(std::span<W> weights, std::uint64_t seed) const {
    check_size(weights, sizes_.parameters);
    for (const Tensor& tensor : parameters_)
      tandem::initialise(tensor, seed, part(weights, tensor.offset, tensor.size()));
  }

  /// Called when a layer, a position in the stage, is done.
  using AfterLayer = std::function<void(std::size_t layer)>;

  // Spans that a call does not name may be empty, and so may be `after`. A first stage reads the
  // sample and no input, and makes no input gradient; a last stage makes no output, and takes no
  // output gradient. A slice's calls are handed the stashes of the slices before it, in pieces
  // (earlier_pieces), or their contexts where the stage makes its stash again; a backward the
  // context_gradient too; a forward of a text what is kept of it. These may be longer than they
  // must.

  /// Reads weights, input, sample; writes stash, context, output, scratch; a last stage the
  /// microbatch's mean loss.
  void forward(K& kernels, const ForwardSpans<T, W>& spans, const AfterLayer& after = {}) const {
    check(spans);
    if (reads_numbers_) {
      kernels.store(spans.sample.inputs, numbers_of({spans.stash, spans.pieces, std::span<T>()}));
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      const Stashes stashes{spans.stash, spans.pieces, passing_block(i, spans.scratch)};
      const Earlier earlier = earlier_of(i, spans.earlier_pieces);
      place.layer.forward(
          kernels,
          {.weights = part(spans.weights, place.weights, place.layer.weights_size()),
           .input = input_of(i, spans.input, stashes),
           .sample = spans.sample,
           .stash = stash_of(i, stashes),
           .output = i + 1 < places_.size() ? output_of(i, stashes) : spans.output,
           .scratch = drops_ ? part(spans.scratch, 0, place.layer.scratch_size()) : std::span<T>(),
           .loss = spans.loss,
           .earlier = earlier,
           .kept = spans.kept.empty()
                       ? spans.kept
                       : part(spans.kept, place.context_gradient, place.layer.context_size())});
      if (keeps_context(place) && !(again_ && spans.context.empty())) {
        const std::int64_t size = place.layer.inner_size();
        kernels.copy(std::span<const T>(part(stash_of(i, stashes), 0, size)),
                     again_ ? part(spans.context[place.context.piece], 0, size)
                            : stashes.part_of_stage(place.context, size));
      }
      if (after) after(i);
    }
  }

  /// What a forward of a last stage without targets has left: a row of the vocabulary for each
  /// token, and more behind them.
  std::span<const T> logits(const ForwardSpans<T, W>& spans) const {
    return stash_of(places_.size() - 1, {spans.stash, spans.pieces, {}});
  }

  /// Forward again into a stash, bit for bit, for a backward to follow: reads weights, input,
  /// sample; writes stash.
  void recompute(K& kernels, ForwardSpans<T, W> spans) const {
    spans.output = {};
    spans.context = {};
    spans.loss = nullptr;
    forward(kernels, spans);
  }

  /// Whole: reads weights, input, stash, output_gradient; writes scratch, input_gradient, which may
  /// be where output_gradient is; adds to gradients. Its bits are those of backward_input() and
  /// backward_weight() in turn.
  void backward(K& kernels, const BackwardSpans<T, W>& spans, const AfterLayer& after = {}) const {
    check(spans, sizes_.scratch);
    check_size(spans.weights, sizes_.parameters);
    check_size(spans.gradients, sizes_.parameters);
    for (std::size_t i = places_.size(); i-- > 0;) {
      if (ends_block(i)) recompute_block(kernels, spans, *places_[i].block, {});
      BackwardSpans<T, W> own = passing_spans_of(i, spans);
      const Earlier earlier = earlier_of(i, spans.earlier_pieces);
      own.earlier = earlier;
      keep_apart(kernels, own, spans.scratch);
      places_[i].layer.backward_input(kernels, own);
      places_[i].layer.backward_weight(kernels, own);
      if (after) after(i);
    }
  }

  /// Reads weights, input, stash, output_gradient; writes scratch (kept_gradients long),
  /// inner_gradient, input_gradient; and over what of the stash it alone reads.
  void backward_input(K& kernels, const BackwardSpans<T, W>& spans,
                      const AfterLayer& after = {}) const {
    check(spans, sizes_.kept_gradients);
    check_size(spans.weights, sizes_.parameters);
    check_size(spans.inner_gradient, sizes_.inner_gradient);
    for (std::size_t i = places_.size(); i-- > 0;) {
      if (ends_block(i))
        make_again(kernels, spans, blocks_[*places_[i].block], kept_block(i, spans.scratch), {});
      BackwardSpans<T, W> own = kept_spans_of(i, spans);
      const Earlier earlier = earlier_of(i, spans.earlier_pieces);
      own.earlier = earlier;
      const std::span<T> kept = own.inner_gradient;
      own.inner_gradient = part(spans.inner_gradient, 0, std::ssize(kept));
      places_[i].layer.backward_input(kernels, own);
      kernels.copy(own.inner_gradient, kept);
      if (after) after(i);
    }
  }

  /// Reads input, stash, output_gradient, scratch as backward_input() left it; adds to gradients.
  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans,
                       const AfterLayer& after = {}) const {
    check(spans, sizes_.kept_gradients);
    check_size(spans.gradients, sizes_.parameters);
    for (std::size_t i = places_.size(); i-- > 0;) {
      places_[i].layer.backward_weight(kernels, kept_spans_of(i, spans));
      if (after) after(i);
    }
  }

  std::size_t layers() const { return places_.size(); }
  /// Of a layer's weights in the stage's.
  ElementRange weights_of(std::size_t layer) const {
    const Place& place = places_[layer];
    return {place.weights, place.weights + place.layer.weights_size()};
  }
  /// What a layer's backward begins with where recomputation is selective; else nothing. Reads
  /// weights, input, stash; writes scratch.
  void recompute_dropped(K& kernels, const BackwardSpans<T, W>& spans, std::size_t layer) const {
    places_[layer].layer.recompute(kernels, passing_spans_of(layer, spans));
  }

  /// Where blocks are made again: how many.
  std::size_t blocks() const { return blocks_.size(); }
  /// What backward() begins a block with. The same.
  void recompute_block(K& kernels, const BackwardSpans<T, W>& spans, std::size_t block,
                       const AfterLayer& after) const {
    const Block& again = blocks_[block];
    make_again(kernels, spans, again, passing_block(again.first, spans.scratch), after);
  }

 private:
  /// A layer and where its parts begin in the stage's spans.
  struct Place {
    AnyLayer<K> layer;
    std::int64_t weights = 0;
    StashPlace stash = {}, output = {};             // output: but for the last layer's
    std::int64_t scratch = 0, output_gradient = 0;  // in the kept gradients; likewise
    StashPlace context = {};            // a copy of what later slices read, where it is made again
    std::int64_t context_gradient = 0;  // in the stage's
    std::optional<std::size_t> block = {};  // that its stash is in, and its output unless the last
  };
  /// Layers that are made again together, from the input of the first. Their stashes lie in
  /// scratch.
  struct Block {
    std::size_t first = 0, last = 0;
    std::int64_t size = 0, kept = 0;  // of their stashes; where these begin in the kept gradients
  };
  using Stashes = StashSpans<T>;

  using Earlier = std::vector<std::span<const T>>;
  /// A layer's part of the stashes of earlier slices; nothing where it reads none.
  Earlier earlier_of(std::size_t layer,
                     std::span<const std::span<const std::span<T>>> slices) const {
    const Place& place = places_[layer];
    Earlier earlier;
    if (place.layer.context_size() == 0) return earlier;
    for (const std::span<const std::span<T>> pieces : slices)
      earlier.push_back(pieces[keeps_context(place) ? place.context.piece : place.stash.piece]);
    return earlier;
  }
  /// Stashes that are made again are forgotten meanwhile, and later slices would read them.
  bool keeps_context(const Place& place) const {
    return (place.block || again_) && place.layer.context_size() > 0;
  }

  void check(const ForwardSpans<T, W>& spans) const {
    check_size(spans.weights, sizes_.parameters);
    check_stash(spans.stash, spans.pieces);
    if (!first_) check_size(spans.input, sizes_.boundary);
    if (drops_ || !blocks_.empty()) check_size(spans.scratch, sizes_.scratch);
    if (!spans.context.empty())
      TANDEM_CHECK(spans.context.size() == sizes_.context_pieces.size(), spans.context.size());
    TANDEM_CHECK(!spans.sample.empty() || (!first_ && !last_), first_, last_);
  }
  void check(const BackwardSpans<T, W>& spans, std::int64_t scratch) const {
    check_stash(spans.stash, spans.pieces);
    check_size(spans.scratch, scratch);
    if (!first_) check_size(spans.input, sizes_.boundary);
    if (!last_) check_size(spans.output_gradient, sizes_.boundary);
  }
  void check_stash(std::span<const T> whole, std::span<const std::span<T>> pieces) const {
    if (pieces.empty()) return check_size(whole, sizes_.stash);
    TANDEM_CHECK(pieces.size() == sizes_.stash_pieces.size(), pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i)
      TANDEM_CHECK(std::ssize(pieces[i]) >= sizes_.stash_pieces[i], i, pieces[i].size());
  }
  /// The part of `layer` of the stage's spans, but for its inner gradient. In scratch its own
  /// begins at `scratch`, the gradient after layer i at `gradient_after(i)`; `block`: the stashes
  /// of its block.
  BackwardSpans<T, W> spans_of(std::size_t layer, const BackwardSpans<T, W>& spans,
                               std::int64_t scratch, const auto& gradient_after,
                               std::span<T> block) const {
    const Place& place = places_[layer];
    const std::int64_t size = place.layer.weights_size();
    const auto between = [&](std::size_t after) {
      return part(spans.scratch, gradient_after(after), sizes_.boundary);
    };
    BackwardSpans<T, W> own;
    if (!spans.weights.empty()) own.weights = part(spans.weights, place.weights, size);
    if (!spans.gradients.empty()) own.gradients = part(spans.gradients, place.weights, size);
    if (!spans.context_gradient.empty()) {
      own.context_gradient =
          part(spans.context_gradient, place.context_gradient, place.layer.context_size());
    }
    const Stashes stashes{spans.stash, spans.pieces, block};
    own.input = input_of(layer, spans.input, stashes);
    own.stash = stash_of(layer, stashes);
    own.output_gradient = layer + 1 < places_.size() ? between(layer) : spans.output_gradient;
    own.scratch = part(spans.scratch, scratch, place.layer.scratch_size());
    own.input_gradient = layer > 0 ? between(layer - 1) : spans.input_gradient;
    return own;
  }
  /// In scratch: gradients on the two sides of a layer, but for those that are handed in and out.
  std::int64_t gradient_buffers() const {
    return std::clamp<std::int64_t>(std::ssize(places_) - 1, 1, 2);
  }
  /// A stage's only layer reads its output's gradient when that of its input has been written.
  void keep_apart(K& kernels, BackwardSpans<T, W>& own, std::span<T> scratch) const {
    if (own.input_gradient.empty() || own.input_gradient.data() != own.output_gradient.data())
      return;
    const std::span<T> kept = part(scratch, 0, sizes_.boundary);
    kernels.copy(own.output_gradient, kept);
    own.output_gradient = kept;
  }
  /// In scratch that layers take in turn.
  BackwardSpans<T, W> passing_spans_of(std::size_t layer, const BackwardSpans<T, W>& spans) const {
    const std::int64_t buffers = gradient_buffers();
    const std::int64_t step = room<T, W>(sizes_.boundary);
    // The gradient after layer i lies in buffer i mod 2, but for the last layer, where it was
    // handed in.
    const auto gradient_after = [&](std::size_t after) {
      return static_cast<std::int64_t>(after % 2) % buffers * step;
    };
    const std::int64_t inner = places_[layer].layer.inner_size();
    BackwardSpans<T, W> own = spans_of(layer, spans, buffers * step + inner, gradient_after,
                                       passing_block(layer, spans.scratch));
    own.inner_gradient = part(spans.scratch, buffers * step, inner);
    return own;
  }
  /// As kept between backward_input() and backward_weight().
  BackwardSpans<T, W> kept_spans_of(std::size_t layer, const BackwardSpans<T, W>& spans) const {
    const auto gradient_after = [this](std::size_t after) {
      return places_[after].output_gradient;
    };
    BackwardSpans<T, W> own = spans_of(layer, spans, places_[layer].scratch, gradient_after,
                                       kept_block(layer, spans.scratch));
    own.inner_gradient = part(own.stash, 0, places_[layer].layer.inner_size());
    return own;
  }

  bool ends_block(std::size_t layer) const {
    const auto& block = places_[layer].block;
    return block && layer + 1 == blocks_[*block].last;
  }
  std::span<T> stash_of(std::size_t layer, const Stashes& stashes) const {
    const Place& place = places_[layer];
    const std::int64_t size = place.layer.stash_size();
    return place.block ? part(stashes.block, place.stash.first, size)
                       : stashes.part_of_stage(place.stash, size);
  }
  /// REQUIRES: not the last layer.
  std::span<T> output_of(std::size_t layer, const Stashes& stashes) const {
    const Place& place = places_[layer];
    const bool in_block = place.block && !ends_block(layer);
    return in_block ? part(stashes.block, place.output.first, sizes_.boundary)
                    : stashes.part_of_stage(place.output, sizes_.boundary);
  }
  std::span<const T> input_of(std::size_t layer, std::span<const T> input,
                              const Stashes& stashes) const {
    if (layer > 0) return output_of(layer - 1, stashes);
    return reads_numbers_ ? numbers_of(stashes) : input;
  }
  /// That the data gave.
  std::span<T> numbers_of(const Stashes& stashes) const {
    return stashes.part_of_stage({}, sizes_.boundary);
  }
  /// Of the block that a layer is in; empty: in none.
  std::span<T> passing_block(std::size_t layer, std::span<T> scratch) const {
    const auto& block = places_[layer].block;
    if (!block) return {};
    return part(scratch, sizes_.scratch - largest_block_, blocks_[*block].size);
  }
  std::span<T> kept_block(std::size_t layer, std::span<T> kept) const {
    const auto& block = places_[layer].block;
    return block ? part(kept, blocks_[*block].kept, blocks_[*block].size) : std::span<T>();
  }

  void make_again(K& kernels, const BackwardSpans<T, W>& spans, const Block& block,
                  std::span<T> stashes, const AfterLayer& after) const {
    const Stashes parts{spans.stash, spans.pieces, stashes};
    for (std::size_t i = block.first; i < block.last; ++i) {
      const Place& place = places_[i];
      const Earlier earlier = earlier_of(i, spans.earlier_pieces);
      place.layer.forward(
          kernels, {.weights = part(spans.weights, place.weights, place.layer.weights_size()),
                    .input = input_of(i, spans.input, parts),
                    .stash = stash_of(i, parts),
                    .output = ends_block(i) ? std::span<T>() : output_of(i, parts),
                    .earlier = earlier});
      if (after) after(i);
    }
  }

  void find_blocks(const ModelSpec& model, LayerRange layers, Recompute recompute) {
    for (const LayerRange range : recomputed_in_stage(model, layers, recompute)) {
      const Block block{.first = static_cast<std::size_t>(range.first),
                        .last = static_cast<std::size_t>(range.last)};
      for (std::size_t layer = block.first; layer < block.last; ++layer)
        places_[layer].block = blocks_.size();
      blocks_.push_back(block);
    }
  }
  void lay_out(std::int64_t boundary) {
    std::int64_t weights = 0, kept = 0, largest_scratch = 0, largest_inner = 0;
    const std::int64_t inner = room<T, W>(boundary);
    if (reads_numbers_) add_to_stash(inner);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      place.weights = std::exchange(weights, weights + place.layer.weights_size());
      const auto add = [&](std::int64_t size, bool in_block) {
        if (!in_block) return add_to_stash(size);
        std::int64_t& block = blocks_[*place.block].size;
        return StashPlace{.first = std::exchange(block, block + size)};
      };
      place.stash = add(place.layer.stash_size(), place.block.has_value());
      if (keeps_context(place)) {
        place.context = again_ ? StashPlace{.piece = sizes_.context_pieces.size()}
                               : add_to_stash(place.layer.inner_size());
        if (again_) sizes_.context_pieces.push_back(place.layer.inner_size());
      }
      place.context_gradient = std::exchange(sizes_.context_gradient,
                                             sizes_.context_gradient + place.layer.context_size());
      place.scratch = std::exchange(kept, kept + place.layer.scratch_size());
      const std::int64_t inside = place.layer.inner_size();
      largest_inner = std::max(largest_inner, inside);
      largest_scratch = std::max(largest_scratch, inside + place.layer.scratch_size());
      if (i + 1 == places_.size()) continue;
      place.output = add(inner, place.block && !ends_block(i));
      place.output_gradient = std::exchange(kept, kept + inner);
    }
    for (Block& block : blocks_) {
      block.kept = std::exchange(kept, kept + block.size);
      largest_block_ = std::max(largest_block_, block.size);
    }
    sizes_.parameters = weights;
    sizes_.boundary = boundary;
    sizes_.scratch = largest_scratch + gradient_buffers() * inner + largest_block_;
    sizes_.kept_gradients = kept;
    sizes_.inner_gradient = largest_inner;
  }
  StashPlace add_to_stash(std::int64_t size) {
    const StashPlace place{sizes_.stash, sizes_.stash_pieces.size()};
    if (size > 0) sizes_.stash_pieces.push_back(size);
    sizes_.stash += size;
    return place;
  }

  bool first_ = false, last_ = false, reads_numbers_ = false;
  bool drops_ = false, again_ = false;  // recomputation: selective, of the stage
  Slice slice_;
  std::vector<Place> places_;
  std::vector<Block> blocks_;
  std::int64_t largest_block_ = 0;
  std::vector<Tensor> parameters_;
  TiedRanges tied_;
  StageSizes sizes_;
};

}  // namespace tandem
