#pragma once
// Final LayerNorm, vocabulary projection (V × d, as the token embedding), cross-entropy. Forward
// needs the targets, returns the mean loss over the microbatch's tokens, and leaves the scaled
// gradient of the logits in the stash: backward needs neither targets nor logits. When the model is
// tied the head holds its own copy of the token embedding.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class Head {
 public:
  using T = typename K::Scalar;
  explicit Head(const LayerShape& shape)
      : shape_(shape), d_(shape.model.width), vocabulary_(shape.model.vocabulary) {}

  std::vector<Tensor> tensors(std::int32_t /*block*/) const {
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors("head.norm", shape_.model.width), tensors);
    std::vector<Tensor> projection(1);
    projection[0] = {.name = kHeadTable,
                     .shape = {vocabulary_, d_},
                     .decayed = true,
                     .initial = Initial::normal,
                     .deviation = kInitialDeviation,
                     .key = shape_.model.tied ? kTokenTable : kHeadTable};
    append_tensors(std::move(projection), tensors);
    return tensors;
  }
  std::int64_t stash_size() const { return shape_.rows() * (2 + d_ + vocabulary_); }
  std::int64_t scratch_size() const { return shape_.rows() * d_; }

  std::optional<double> forward(K& kernels, const ForwardSpans<T>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    kernels.layer_norm(shape_.norm(), NormForward<T>{.x = spans.input,
                                                     .gain = weights.gain,
                                                     .bias = weights.bias,
                                                     .mean = stash.mean,
                                                     .inverse_deviation = stash.inverse_deviation,
                                                     .y = stash.normed});
    const MatmulShape to_logits{.rows = shape_.rows(), .inner = d_, .columns = vocabulary_};
    kernels.matmul_transposed(to_logits, stash.normed, weights.projection, stash.logits);
    return kernels.cross_entropy({.rows = shape_.rows(), .width = vocabulary_},
                                 spans.sample->targets, shape_.loss_scale, stash.logits);
  }

  void backward_input(K& kernels, const BackwardSpans<T>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = vocabulary_, .columns = d_};
    kernels.matmul(to_norm, stash.logits, weights.projection, {}, spans.scratch);
    kernels.layer_norm_backward(shape_.norm(),
                                NormBackward<T>{.x = spans.input,
                                                .mean = stash.mean,
                                                .inverse_deviation = stash.inverse_deviation,
                                                .gain = weights.gain,
                                                .dy = spans.scratch,
                                                .residual = {},
                                                .dx = spans.input_gradient});
  }

  void backward_weight(K& kernels, const BackwardSpans<T>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto stash = cut_stash(spans.stash);
    const MatmulShape table{.rows = shape_.rows(), .inner = vocabulary_, .columns = d_};
    kernels.accumulate_product(table, stash.logits, stash.normed, gradients.projection);
    kernels.layer_norm_backward_weight(
        shape_.norm(), NormBackwardWeight<T>{.x = spans.input,
                                             .mean = stash.mean,
                                             .inverse_deviation = stash.inverse_deviation,
                                             .dy = spans.scratch,
                                             .dgain = gradients.gain,
                                             .dbias = gradients.bias});
  }

 private:
  template <class U>
  struct Weights {
    std::span<U> gain, bias, projection;
  };
  template <class U>
  struct Stash {
    std::span<U> mean, inverse_deviation, normed, logits;  // logits: their gradient, after forward
  };

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {carver.take(d_), carver.take(d_), carver.take(vocabulary_ * d_)};
  }
  template <class U>
  Stash<U> cut_stash(std::span<U> whole) const {
    Carver<U> carver(whole);
    const std::int64_t rows = shape_.rows();
    return {carver.take(rows), carver.take(rows), carver.take(rows * d_),
            carver.take(rows * vocabulary_)};
  }

  LayerShape shape_;
  std::int64_t d_, vocabulary_;
};

}  // namespace tandem
