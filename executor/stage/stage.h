#pragma once
// Stage: consecutive layers of a model as one thing to run. Owns no tensor memory and keeps no
// state: every span is handed in, so one stage serves any number of microbatches in flight, and any
// thread. The same inputs give the same bits, and so does the same model cut otherwise.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"
#include "executor/layers/all.h"

namespace tandem {

/// Elements of each span that a stage is handed.
struct StageSizes {
  std::int64_t parameters = 0;  // weights, and gradients
  std::int64_t stash = 0;
  std::int64_t boundary = 0;  // input, output and their gradients
  std::int64_t scratch = 0;   // of backward(), and of forward() where something is made again;
                              // free again when they return
  std::int64_t kept_gradients =
      0;  // of backward_input(): kept until backward_weight() of the same microbatch
};

/// Half-open range of elements in a stage's parameters.
struct ElementRange {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Where the token embedding lies in a stage: the embedding's own, and the head's copy. Empty when
/// not here, or not tied. Their gradients are summed, embedding + head, before both are updated
/// alike.
struct TiedRanges {
  std::optional<ElementRange> embedding, head;
};

/// Where the token embedding lies among the tensors of a stage.
TiedRanges tied_ranges(const ModelSpec& model, const std::vector<Tensor>& tensors);

template <Kernels K>
class Stage {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;

  /// `loss_scale`: what the gradient of the loss summed over tokens is multiplied with; 1 / (B·T·m)
  /// for the mean over a batch. REQUIRES: layers non-empty and inside the model (checked).
  /// Selective recomputation, and that of blocks, move a part of the stash into scratch; the bits
  /// stay the same.
  Stage(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size, double loss_scale,
        Recompute recompute = Recompute::none);

  const StageSizes& sizes() const { return sizes_; }
  /// In the order of their offsets, without gaps. Names are global: block3.attention.qkv.weight.
  const std::vector<Tensor>& parameters() const { return parameters_; }
  const TiedRanges& tied() const { return tied_; }
  bool is_first() const { return first_; }
  bool is_last() const { return last_; }

  /// The same numbers for every partition of the model.
  void initialise(std::span<W> weights, std::uint64_t seed) const;

  /// Called when a layer, a position in the stage, is done.
  using AfterLayer = std::function<void(std::size_t layer)>;

  // Spans that a call does not name may be empty, and so may be `after`. A first stage reads the
  // sample and no input, and makes no input gradient; a last stage makes no output, and takes no
  // output gradient.

  /// Reads weights, input, sample; writes stash, output, scratch; a last stage the microbatch's
  /// mean loss.
  void forward(K& kernels, const ForwardSpans<T, W>& spans, const AfterLayer& after = {}) const;

  /// Forward again into a stash, bit for bit, for a backward to follow: reads weights, input,
  /// sample; writes stash.
  void recompute(K& kernels, ForwardSpans<T, W> spans) const;

  /// Whole: reads weights, input, stash, output_gradient; writes scratch, input_gradient; adds to
  /// gradients. Its bits are those of backward_input() and backward_weight() in turn.
  void backward(K& kernels, const BackwardSpans<T, W>& spans, const AfterLayer& after = {}) const;

  /// Reads weights, input, stash, output_gradient; writes scratch (kept_gradients long),
  /// input_gradient.
  void backward_input(K& kernels, const BackwardSpans<T, W>& spans,
                      const AfterLayer& after = {}) const;

  /// Reads input, stash, output_gradient, scratch as backward_input() left it; adds to gradients.
  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans,
                       const AfterLayer& after = {}) const;

  std::size_t layers() const { return places_.size(); }
  /// Of a layer's weights in the stage's.
  ElementRange weights_of(std::size_t layer) const;
  /// What a layer's backward begins with where recomputation is selective; else nothing. Reads
  /// weights, input, stash; writes scratch.
  void recompute_dropped(K& kernels, const BackwardSpans<T, W>& spans, std::size_t layer) const;
  /// Where blocks are made again: how many.
  std::size_t blocks() const { return blocks_.size(); }
  /// What backward() begins a block with. The same.
  void recompute_block(K& kernels, const BackwardSpans<T, W>& spans, std::size_t block,
                       const AfterLayer& after) const;

 private:
  /// A layer and where its parts begin in the stage's spans.
  struct Place {
    AnyLayer<K> layer;
    std::int64_t weights = 0, stash = 0, output = 0;  // output: but for the last layer's
    std::int64_t scratch = 0, output_gradient = 0;    // inside the kept gradients; likewise
    std::optional<std::size_t> block = {};  // that its stash is in, and its output unless the last
  };

  /// Layers that are made again together, from the input of the first. Their stashes lie in
  /// scratch.
  struct Block {
    std::size_t first = 0, last = 0;
    std::int64_t size = 0, kept = 0;  // of their stashes; where these begin in the kept gradients
  };
  /// The memory of stashes: of a microbatch, and of the block at hand.
  template <class U>
  struct Stashes {
    std::span<U> stage, block;
  };

  template <class U>
  static std::span<U> part(std::span<U> whole, std::int64_t first, std::int64_t size) {
    TANDEM_CHECK(0 <= first && first + size <= static_cast<std::int64_t>(whole.size()), first, size,
                 whole.size());
    return whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
  }

  void check(const ForwardSpans<T, W>& spans) const;
  void check(const BackwardSpans<T, W>& spans, std::int64_t scratch) const;
  /// The part of `layer` of the stage's spans. In scratch its own begins at `scratch`, the gradient
  /// after layer i at `gradient_after(i)`; `block`: the stashes of its block.
  BackwardSpans<T, W> spans_of(std::size_t layer, const BackwardSpans<T, W>& spans,
                               std::int64_t scratch, const auto& gradient_after,
                               std::span<T> block) const;
  /// In scratch that layers take in turn.
  BackwardSpans<T, W> passing_spans_of(std::size_t layer, const BackwardSpans<T, W>& spans) const;
  /// As kept between backward_input() and backward_weight().
  BackwardSpans<T, W> kept_spans_of(std::size_t layer, const BackwardSpans<T, W>& spans) const;
  template <class U>
  std::span<U> stash_of(std::size_t layer, const Stashes<U>& stashes) const;
  /// REQUIRES: not the last layer.
  template <class U>
  std::span<U> output_of(std::size_t layer, const Stashes<U>& stashes) const;
  std::span<const T> input_of(std::size_t layer, std::span<const T> input,
                              const Stashes<const T>& stashes) const;
  /// Of the block that a layer is in; empty: in none.
  std::span<T> passing_block(std::size_t layer, std::span<T> scratch) const;
  std::span<T> kept_block(std::size_t layer, std::span<T> kept) const;
  bool ends_block(std::size_t layer) const;
  void make_again(K& kernels, const BackwardSpans<T, W>& spans, const Block& block,
                  std::span<T> stashes, const AfterLayer& after) const;
  void find_blocks(const ModelSpec& model, LayerRange layers, Recompute recompute);
  void lay_out(std::int64_t boundary);

  bool first_ = false, last_ = false, reads_numbers_ = false, drops_ = false;
  std::vector<Place> places_;
  std::vector<Block> blocks_;
  std::int64_t largest_block_ = 0;
  std::vector<Tensor> parameters_;
  TiedRanges tied_;
  StageSizes sizes_;
};

}  // namespace tandem
