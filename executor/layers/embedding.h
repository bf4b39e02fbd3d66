#pragma once
// Token and, where positions are not rotary, learned position embedding: tokens → (B, T, d). Keeps
// the tokens in its stash, as numbers. There is no gradient of its input. A slice takes the
// positions of its own tokens.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class Embedding {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Embedding(const LayerShape& shape)
      : shape_(shape), positions_(shape_of(shape.model).positions) {}

  std::vector<Tensor> tensors(std::int32_t /*block*/) const {
    const ModelSpec& model = shape_.model;
    std::vector<Tensor> tables{table(kTokenTable, model.vocabulary)};
    if (positions_ > 0) tables.push_back(table(kPositionTable, positions_));
    return tables;
  }
  std::int64_t stash_size() const { return wide_room<T, W>(shape_.rows()); }
  std::int64_t inner_size() const { return 0; }
  std::int64_t scratch_size() const { return 0; }
  std::int64_t context_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    const std::span<W> kept = cut_tokens(spans.stash);
    kernels.keep_tokens(spans.sample.tokens, kept);
    if (spans.output.empty()) return;
    Carver<const T> weights(spans.weights);
    const auto tokens = weights.take(table_size());
    kernels.embed(embedded(), kept, tokens, own(weights.take(positions_size())), spans.output);
  }

  void recompute(K&, const BackwardSpans<T, W>&) const {}
  void backward_input(K&, const BackwardSpans<T, W>&) const {}

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    Carver<W> gradients(spans.gradients);
    const auto tokens = gradients.take(table_size());
    kernels.embed_backward(embedded(), cut_tokens(spans.stash), spans.output_gradient, tokens,
                           own(gradients.take(positions_size())));
  }

 private:
  AttentionShape embedded() const {
    return {.batch = shape_.microbatch_size,
            .sequence = shape_.tokens(),
            .heads = 1,
            .width = shape_.model.width};
  }
  /// The rows of the tokens at hand; empty: positions are not learned.
  template <class U>
  std::span<U> own(std::span<U> positions) const {
    if (positions.empty()) return positions;
    const std::int64_t width = shape_.model.width;
    return positions.subspan(static_cast<std::size_t>(shape_.slice.context() * width),
                             static_cast<std::size_t>(shape_.tokens() * width));
  }
  template <class U>
  auto cut_tokens(std::span<U> stash) const {
    return Carver<U, W>(stash).take_wide(shape_.rows());
  }
  Tensor table(const char* name, std::int64_t rows) const {
    return {.name = name,
            .shape = {rows, shape_.model.width},
            .decayed = true,
            .initial = Initial::normal,
            .deviation = initial_deviation(shape_.model)};
  }
  std::int64_t table_size() const {
    return std::int64_t{shape_.model.vocabulary} * shape_.model.width;
  }
  std::int64_t positions_size() const { return positions_ * shape_.model.width; }

  LayerShape shape_;
  std::int64_t positions_;  // rows of their table
};

}  // namespace tandem
