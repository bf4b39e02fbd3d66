#pragma once
// x + Proj(CausalAttention(LayerNorm(x))). Scores are not kept: the kernels make them again from
// queries and keys. A slice's stash begins with its queries, keys and values: later slices read
// those of earlier ones there.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class Attention {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Attention(const LayerShape& shape) : shape_(shape), d_(shape.model.width) {}

  std::vector<Tensor> tensors(std::int32_t block) const {
    const std::string prefix = fmt::format("block{}.attention", block);
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors(prefix + ".norm", shape_.model.width), tensors);
    append_tensors(projection_tensors(prefix + ".qkv", d_, 3 * d_, kInitialDeviation), tensors);
    append_tensors(
        projection_tensors(prefix + ".projection", d_, d_, residual_deviation(shape_.model)),
        tensors);
    return tensors;
  }
  std::int64_t stash_size() const {
    const std::int64_t rows = shape_.rows();
    return inner_size() + wide_room<T, W>(rows * shape_.model.heads) + room<T, W>(rows * d_) +
           (shape_.drops() ? 0 : normed_size<T, W>(shape_.norm()));
  }
  /// Queries, keys and values.
  std::int64_t inner_size() const { return room<T, W>(3 * shape_.rows() * d_); }
  std::int64_t scratch_size() const {
    return room<T, W>(shape_.rows() * d_) + (shape_.drops() ? normed_size<T, W>(shape_.norm()) : 0);
  }

  /// Of the keys and values of the whole sequence; none where nothing is sliced.
  std::int64_t context_size() const {
    if (shape_.slice.is_whole()) return 0;
    return 2 * std::int64_t{shape_.microbatch_size} * shape_.model.sequence * d_;
  }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    const auto normed = cut_normed<K>(shape_, spans.stash, spans.scratch);
    normalise(kernels, shape_.norm(), spans.input, weights.gain, weights.bias, normed);
    kernels.matmul(to_qkv(), normed.y, weights.qkv, weights.qkv_bias, stash.qkv);
    const Earlier earlier = cut_earlier(spans.earlier);
    kernels.attention(
        shape_.attention(),
        AttentionForward<T, W>{
            .qkv = stash.qkv, .log_sum = stash.log_sum, .y = stash.attended, .earlier = earlier});
    if (spans.output.empty()) return;
    kernels.matmul(to_output(), stash.attended, weights.projection, weights.projection_bias,
                   spans.output);
    kernels.add(spans.input, spans.output, spans.output);
  }

  void recompute(K& kernels, const BackwardSpans<T, W>& spans) const {
    normalise_again(kernels, shape_, spans);
  }

  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    recompute(kernels, spans);
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(std::span<const T>(spans.stash));
    const auto normed = cut_normed<K, const T>(shape_, spans.stash, spans.scratch);
    const auto scratch = cut_scratch(spans);
    // The gradient of the attended values borrows the place of the norm's, which is made after its
    // last use.
    const std::span<T> attended_gradient = scratch.normed;
    const MatmulShape back{.rows = shape_.rows(), .inner = d_, .columns = d_};
    kernels.matmul_transposed(back, spans.output_gradient, weights.projection, attended_gradient);
    const Earlier earlier = cut_earlier(spans.earlier);
    if (shape_.slice.later == 0 && !spans.context_gradient.empty())
      kernels.fill(spans.context_gradient, 0.0);
    kernels.attention_backward(shape_.attention(),
                               AttentionBackward<T, W>{.qkv = stash.qkv,
                                                       .log_sum = stash.log_sum,
                                                       .y = stash.attended,
                                                       .dy = attended_gradient,
                                                       .dqkv = scratch.qkv,
                                                       .earlier = earlier,
                                                       .context_gradient = spans.context_gradient});
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = 3 * d_, .columns = d_};
    kernels.matmul_transposed(to_norm, scratch.qkv, weights.qkv, scratch.normed);
    norm_backward(kernels, shape_.norm(), spans, weights.gain, normed, scratch.normed,
                  spans.output_gradient);
  }

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto stash = cut_stash(std::span<const T>(spans.stash));
    const auto normed = cut_normed<K, const T>(shape_, spans.stash, spans.scratch);
    const auto scratch = cut_scratch(spans);
    kernels.accumulate_product_and_rows(to_output(), stash.attended, spans.output_gradient,
                                        gradients.projection, gradients.projection_bias);
    kernels.accumulate_product_and_rows(to_qkv(), normed.y, scratch.qkv, gradients.qkv,
                                        gradients.qkv_bias);
    norm_backward_weight(kernels, shape_.norm(), spans, normed, scratch.normed, gradients.gain,
                         gradients.bias);
  }

 private:
  template <class U>
  struct Weights {
    std::span<U> gain, bias, qkv, qkv_bias, projection, projection_bias;
  };
  template <class U>
  struct Stash {
    std::span<U> qkv;
    std::span<typename Carver<U, W>::WideU> log_sum;
    std::span<U> attended;
  };
  struct Scratch {
    std::span<T> qkv, normed;
  };
  using Earlier = std::vector<std::span<const T>>;

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    return {carver.take(d_),     carver.take(d_),      carver.take(3 * d_ * d_),
            carver.take(3 * d_), carver.take(d_ * d_), carver.take(d_)};
  }
  template <class U>
  Stash<U> cut_stash(std::span<U> whole) const {
    Carver<U, W> carver(whole);
    const std::int64_t rows = shape_.rows();
    return {carver.take_part(3 * rows * d_), carver.take_wide(rows * shape_.model.heads),
            carver.take_part(rows * d_)};
  }
  /// Queries, keys and values of each slice before this one.
  Earlier cut_earlier(std::span<const std::span<const T>> stashes) const {
    const std::vector<std::int32_t>& lengths = shape_.slice.earlier;
    TANDEM_CHECK(stashes.size() == lengths.size(), stashes.size(), lengths.size());
    Earlier earlier;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int64_t rows = std::int64_t{shape_.microbatch_size} * lengths[i];
      earlier.push_back(Carver<const T, W>(stashes[i]).take_part(3 * rows * d_));
    }
    return earlier;
  }
  /// Gradients.
  Scratch cut_scratch(const BackwardSpans<T, W>& spans) const {
    return {Carver<T, W>(spans.inner_gradient).take_part(3 * shape_.rows() * d_),
            Carver<T, W>(spans.scratch).take_part(shape_.rows() * d_)};
  }

  MatmulShape to_qkv() const { return {.rows = shape_.rows(), .inner = d_, .columns = 3 * d_}; }
  MatmulShape to_output() const { return {.rows = shape_.rows(), .inner = d_, .columns = d_}; }

  LayerShape shape_;
  std::int64_t d_;
};

}  // namespace tandem
