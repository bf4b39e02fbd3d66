#pragma once
// x + Proj(GELU(Expand(Norm(x)))); gated, x + Proj(silu(gate) · up), where gate and up are the
// first and the second half of what Expand makes: its columns are the gate's, then up's.

#include "executor/layers/norm.h"

namespace tandem {

template <Kernels K>
class Mlp {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Mlp(const LayerShape& shape) : Mlp(shape, shape_of(shape.model)) {}

  std::vector<Tensor> tensors(std::int32_t block) const {
    const std::string prefix = fmt::format("block{}.mlp", block);
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors(prefix + ".norm", shape_.norm()), tensors);
    append_tensors(projection_tensors(prefix + ".expand", d_, before_,
                                      initial_deviation(shape_.model), has_bias_),
                   tensors);
    append_tensors(projection_tensors(prefix + ".projection", inside_, d_,
                                      residual_deviation(shape_.model), has_bias_),
                   tensors);
    return tensors;
  }
  std::int64_t stash_size() const { return inner_size() + (shape_.drops() ? 0 : cheap_size()); }
  /// What GELU, or the gate, reads.
  std::int64_t inner_size() const { return room<T, W>(shape_.rows() * before_); }
  std::int64_t scratch_size() const {
    return room<T, W>(shape_.rows() * d_) + (shape_.drops() ? cheap_size() : 0);
  }
  std::int64_t context_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto before = cut_before(spans.stash);
    const auto cheap = cut_cheap(spans.stash, spans.scratch);
    normalise(kernels, shape_.norm(), spans.input, weights.norm, cheap.normed);
    if (gated_) {
      kernels.matmul(expand(), cheap.normed.y, weights.expand, weights.expand_bias, before);
      kernels.swiglu(after(), before, cheap.after);
    } else {
      kernels.matmul_gelu(expand(), cheap.normed.y, weights.expand, weights.expand_bias, before,
                          cheap.after);
    }
    if (spans.output.empty()) return;
    kernels.matmul(project(), cheap.after, weights.projection, weights.projection_bias,
                   spans.output);
    kernels.add(spans.input, spans.output, spans.output);
  }

  void recompute(K& kernels, const BackwardSpans<T, W>& spans) const {
    if (!shape_.drops()) return;
    const auto weights = cut_weights(spans.weights);
    const auto cheap = cut_cheap<T>({}, spans.scratch);
    normalise(kernels, shape_.norm(), spans.input, weights.norm, cheap.normed);
    const auto before = cut_before(std::span<const T>(spans.stash));
    if (gated_) {
      kernels.swiglu(after(), before, cheap.after);
    } else {
      kernels.gelu(before, cheap.after);
    }
  }

  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    recompute(kernels, spans);
    const auto weights = cut_weights(spans.weights);
    const auto before = cut_before(std::span<const T>(spans.stash));
    const auto cheap = cut_cheap<const T>(spans.stash, spans.scratch);
    const auto scratch = cut_scratch(spans);
    const MatmulShape to_inside{.rows = shape_.rows(), .inner = d_, .columns = inside_};
    if (gated_) {
      kernels.matmul_transposed_swiglu_backward(to_inside, spans.output_gradient,
                                                weights.projection, before, scratch.before);
    } else {
      kernels.matmul_transposed_gelu_backward(to_inside, spans.output_gradient, weights.projection,
                                              before, scratch.before);
    }
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = before_, .columns = d_};
    kernels.matmul_transposed(to_norm, scratch.before, weights.expand, scratch.normed);
    norm_backward(kernels, shape_.norm(), spans, weights.norm.gain, cheap.normed, scratch.normed,
                  spans.output_gradient);
  }

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto cheap = cut_cheap<const T>(spans.stash, spans.scratch);
    const auto scratch = cut_scratch(spans);
    accumulate_projection(kernels, project(), cheap.after, spans.output_gradient,
                          gradients.projection, gradients.projection_bias);
    accumulate_projection(kernels, expand(), cheap.normed.y, scratch.before, gradients.expand,
                          gradients.expand_bias);
    norm_backward_weight(kernels, shape_.norm(), spans, cheap.normed, scratch.normed,
                         gradients.norm);
  }

 private:
  Mlp(const LayerShape& shape, const TransformerShape& built)
      : shape_(shape),
        d_(shape.model.width),
        inside_(built.mlp_width),
        before_(built.gated ? 2 * inside_ : inside_),
        gated_(built.gated),
        has_bias_(built.mlp_bias) {}

  std::int64_t cheap_size() const {
    return normed_size<T, W>(shape_.norm()) + room<T, W>(shape_.rows() * inside_);
  }

  template <class U>
  struct Weights {
    NormWeights<U> norm;
    std::span<U> expand, expand_bias, projection, projection_bias;
  };
  template <class U>
  struct Cheap {
    Normed<U, typename Carver<U, W>::WideU> normed;
    std::span<U> after;  // GELU, or the gate
  };
  struct Scratch {
    std::span<T> before, normed;
  };

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {take_norm_weights(carver, shape_.norm()), carver.take(d_ * before_),
            carver.take(has_bias_ ? before_ : 0), carver.take(inside_ * d_),
            carver.take(has_bias_ ? d_ : 0)};
  }
  template <class U>
  Cheap<U> cut_cheap(std::span<U> stash, std::span<U> scratch) const {
    auto carver = cheap_part<W>(shape_, stash, scratch, cheap_size());
    return {take_normed(carver, shape_.norm()), carver.take_part(shape_.rows() * inside_)};
  }
  /// What GELU, or the gate, read.
  template <class U>
  std::span<U> cut_before(std::span<U> stash) const {
    return Carver<U, W>(stash).take_part(shape_.rows() * before_);
  }
  /// Gradients.
  Scratch cut_scratch(const BackwardSpans<T, W>& spans) const {
    return {Carver<T, W>(spans.inner_gradient).take_part(shape_.rows() * before_),
            Carver<T, W>(spans.scratch).take_part(shape_.rows() * d_)};
  }

  MatmulShape expand() const { return {.rows = shape_.rows(), .inner = d_, .columns = before_}; }
  RowShape after() const { return {.rows = shape_.rows(), .width = inside_}; }
  MatmulShape project() const { return {.rows = shape_.rows(), .inner = inside_, .columns = d_}; }

  LayerShape shape_;
  std::int64_t d_, inside_, before_;  // before_: columns of what the activation reads
  bool gated_, has_bias_;
};

}  // namespace tandem
