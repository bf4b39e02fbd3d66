#pragma once
// Final norm, vocabulary projection (V × d, as the token embedding), cross-entropy. Forward
// without targets leaves the logits first in the stash. Else it takes the targets, writes the mean
// loss over the microbatch's tokens, and leaves the scaled gradient of the logits in the stash:
// backward needs neither targets nor logits. When the model is tied the head holds its own copy of
// the token embedding.

#include "executor/layers/norm.h"

namespace tandem {

template <Kernels K>
class Head {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Head(const LayerShape& shape)
      : shape_(shape), d_(shape.model.width), vocabulary_(shape.model.vocabulary) {}

  std::vector<Tensor> tensors(std::int32_t /*block*/) const {
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors("head.norm", shape_.norm()), tensors);
    append_tensors({{.name = kHeadTable,
                     .shape = {vocabulary_, d_},
                     .decayed = true,
                     .initial = Initial::normal,
                     .deviation = initial_deviation(shape_.model),
                     .key = shape_.model.tied ? kTokenTable : kHeadTable}},
                   tensors);
    return tensors;
  }
  std::int64_t stash_size() const {
    return room<T, W>(shape_.rows() * vocabulary_) +
           (shape_.drops() ? 0 : normed_size<T, W>(shape_.norm()));
  }
  std::int64_t inner_size() const { return 0; }
  std::int64_t scratch_size() const {
    return room<T, W>(shape_.rows() * d_) + (shape_.drops() ? normed_size<T, W>(shape_.norm()) : 0);
  }
  std::int64_t context_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto logits = cut_logits(spans.stash);
    const auto normed = cut_normed<K>(shape_, spans.stash, spans.scratch);
    normalise(kernels, shape_.norm(), spans.input, weights.norm, normed);
    const MatmulShape to_logits{.rows = shape_.rows(), .inner = d_, .columns = vocabulary_};
    kernels.matmul_transposed(to_logits, normed.y, weights.projection, logits);
    if (spans.sample.targets.empty()) return;
    kernels.cross_entropy({.rows = shape_.rows(), .width = vocabulary_}, spans.sample.targets,
                          shape_.loss_scale, logits, spans.loss);
  }

  void recompute(K& kernels, const BackwardSpans<T, W>& spans) const {
    normalise_again(kernels, shape_, spans);
  }

  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    recompute(kernels, spans);
    const auto weights = cut_weights(spans.weights);
    const auto logits = cut_logits(spans.stash);
    const auto normed = cut_normed<K, const T>(shape_, spans.stash, spans.scratch);
    const std::span<T> scratch = cut_scratch(spans.scratch);
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = vocabulary_, .columns = d_};
    kernels.matmul(to_norm, logits, weights.projection, {}, scratch);
    norm_backward(kernels, shape_.norm(), spans, weights.norm.gain, normed, scratch, {});
  }

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto logits = cut_logits(spans.stash);
    const auto normed = cut_normed<K, const T>(shape_, spans.stash, spans.scratch);
    const std::span<const T> scratch = cut_scratch(spans.scratch);
    const MatmulShape table{.rows = shape_.rows(), .inner = vocabulary_, .columns = d_};
    kernels.accumulate_product(table, logits, normed.y, gradients.projection);
    norm_backward_weight(kernels, shape_.norm(), spans, normed, scratch, gradients.norm);
  }

 private:
  template <class U>
  struct Weights {
    NormWeights<U> norm;
    std::span<U> projection;
  };

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {take_norm_weights(carver, shape_.norm()), carver.take(vocabulary_ * d_)};
  }
  /// Their gradient, after forward.
  template <class U>
  std::span<U> cut_logits(std::span<U> stash) const {
    return Carver<U, W>(stash).take_part(shape_.rows() * vocabulary_);
  }
  /// The gradient of the normed values.
  std::span<T> cut_scratch(std::span<T> whole) const {
    return Carver<T, W>(whole).take_part(shape_.rows() * d_);
  }

  LayerShape shape_;
  std::int64_t d_, vocabulary_;
};

}  // namespace tandem
