#pragma once
// x + Proj(GELU(Expand(LayerNorm(x)))), four times as wide inside.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class Mlp {
 public:
  using T = typename K::Scalar;
  explicit Mlp(const LayerShape& shape) : shape_(shape), d_(shape.model.width), inside_(4 * d_) {}

  std::vector<Tensor> tensors(std::int32_t block) const {
    const std::string prefix = fmt::format("block{}.mlp", block);
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors(prefix + ".norm", shape_.model.width), tensors);
    append_tensors(projection_tensors(prefix + ".expand", d_, inside_, kInitialDeviation), tensors);
    append_tensors(
        projection_tensors(prefix + ".projection", inside_, d_, residual_deviation(shape_.model)),
        tensors);
    return tensors;
  }
  std::int64_t stash_size() const { return shape_.rows() * (2 + d_ + 2 * inside_); }
  std::int64_t scratch_size() const { return shape_.rows() * (inside_ + d_); }

  std::optional<double> forward(K& kernels, const ForwardSpans<T>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    kernels.layer_norm(shape_.norm(), NormForward<T>{.x = spans.input,
                                                     .gain = weights.gain,
                                                     .bias = weights.bias,
                                                     .mean = stash.mean,
                                                     .inverse_deviation = stash.inverse_deviation,
                                                     .y = stash.normed});
    kernels.matmul(expand(), stash.normed, weights.expand, weights.expand_bias, stash.before);
    kernels.gelu(stash.before, stash.after);
    if (spans.output.empty()) return {};
    kernels.matmul(project(), stash.after, weights.projection, weights.projection_bias,
                   spans.output);
    kernels.add(spans.input, spans.output, spans.output);
    return {};
  }

  void backward_input(K& kernels, const BackwardSpans<T>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    const auto scratch = cut_scratch(spans.scratch);
    const MatmulShape to_inside{.rows = shape_.rows(), .inner = d_, .columns = inside_};
    kernels.matmul_transposed(to_inside, spans.output_gradient, weights.projection, scratch.before);
    kernels.gelu_backward(stash.before, scratch.before, scratch.before);
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = inside_, .columns = d_};
    kernels.matmul_transposed(to_norm, scratch.before, weights.expand, scratch.normed);
    kernels.layer_norm_backward(shape_.norm(),
                                NormBackward<T>{.x = spans.input,
                                                .mean = stash.mean,
                                                .inverse_deviation = stash.inverse_deviation,
                                                .gain = weights.gain,
                                                .dy = scratch.normed,
                                                .residual = spans.output_gradient,
                                                .dx = spans.input_gradient});
  }

  void backward_weight(K& kernels, const BackwardSpans<T>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto stash = cut_stash(spans.stash);
    const auto scratch = cut_scratch(std::span<const T>(spans.scratch));
    kernels.accumulate_product(project(), stash.after, spans.output_gradient, gradients.projection);
    kernels.accumulate_rows(shape_.norm(), spans.output_gradient, gradients.projection_bias);
    kernels.accumulate_product(expand(), stash.normed, scratch.before, gradients.expand);
    kernels.accumulate_rows({.rows = shape_.rows(), .width = inside_}, scratch.before,
                            gradients.expand_bias);
    kernels.layer_norm_backward_weight(
        shape_.norm(), NormBackwardWeight<T>{.x = spans.input,
                                             .mean = stash.mean,
                                             .inverse_deviation = stash.inverse_deviation,
                                             .dy = scratch.normed,
                                             .dgain = gradients.gain,
                                             .dbias = gradients.bias});
  }

 private:
  template <class U>
  struct Weights {
    std::span<U> gain, bias, expand, expand_bias, projection, projection_bias;
  };
  template <class U>
  struct Stash {
    std::span<U> mean, inverse_deviation, normed, before, after;  // before and after GELU
  };
  template <class U>
  struct Scratch {
    std::span<U> before, normed;
  };

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {carver.take(d_),      carver.take(d_),           carver.take(d_ * inside_),
            carver.take(inside_), carver.take(inside_ * d_), carver.take(d_)};
  }
  template <class U>
  Stash<U> cut_stash(std::span<U> whole) const {
    Carver<U> carver(whole);
    const std::int64_t rows = shape_.rows();
    return {carver.take(rows), carver.take(rows), carver.take(rows * d_),
            carver.take(rows * inside_), carver.take(rows * inside_)};
  }
  template <class U>
  Scratch<U> cut_scratch(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {carver.take(shape_.rows() * inside_), carver.take(shape_.rows() * d_)};
  }

  MatmulShape expand() const { return {.rows = shape_.rows(), .inner = d_, .columns = inside_}; }
  MatmulShape project() const { return {.rows = shape_.rows(), .inner = inside_, .columns = d_}; }

  LayerShape shape_;
  std::int64_t d_, inside_;
};

}  // namespace tandem
