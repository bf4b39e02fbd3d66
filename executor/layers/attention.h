#pragma once
// x + Proj(CausalAttention(Norm(x))). One product makes queries, keys and values: the columns of
// its matrix are those of each head's queries, then of each head's keys, then values. Queries and
// keys may have a norm of each head's channels, and then be turned by their positions. Scores are
// not kept: the kernels make them again from queries and keys. A slice's stash begins with its
// queries, keys and values, as they are multiplied: later slices read those of earlier ones there.
// Keys and values of a text that grows are kept apart, for good.

#include "executor/layers/norm.h"

namespace tandem {

template <Kernels K>
class Attention {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Attention(const LayerShape& shape)
      : shape_(shape),
        built_(shape_of(shape.model)),
        heads_(shape.attention()),
        d_(shape.model.width),
        queries_(heads_.width),
        made_(heads_.qkv_width()) {
    if (built_.positions > 0) return;
    rotation_ = rotation_of(built_);
    rotation_.first = shape.slice.context();
  }

  std::vector<Tensor> tensors(std::int32_t block) const {
    const std::string prefix = fmt::format("block{}.attention", block);
    std::vector<Tensor> tensors;
    append_tensors(norm_tensors(prefix + ".norm", shape_.norm()), tensors);
    append_tensors(projection_tensors(prefix + ".qkv", d_, made_, initial_deviation(shape_.model),
                                      built_.query_bias),
                   tensors);
    if (built_.head_norm) {
      for (const char* part : {".query_norm.gain", ".key_norm.gain"}) {
        append_tensors(
            {{.name = prefix + part, .shape = {heads_.head_width()}, .initial = Initial::ones}},
            tensors);
      }
    }
    append_tensors(projection_tensors(prefix + ".projection", queries_, d_,
                                      residual_deviation(shape_.model), built_.attention_bias),
                   tensors);
    return tensors;
  }
  std::int64_t stash_size() const {
    const std::int64_t rows = shape_.rows();
    return inner_size() + wide_room<T, W>(rows * heads_.heads) + room<T, W>(rows * queries_) +
           wide_room<T, W>(inverses_size()) + room<T, W>(before_size()) +
           (shape_.drops() ? 0 : normed_size<T, W>(shape_.norm()));
  }
  /// Queries, keys and values.
  std::int64_t inner_size() const { return room<T, W>(shape_.rows() * made_); }
  std::int64_t scratch_size() const {
    return room<T, W>(shape_.rows() * std::max(d_, queries_)) + room<T, W>(before_size()) +
           (shape_.drops() ? normed_size<T, W>(shape_.norm()) : 0);
  }

  /// Of the keys and values of the whole sequence, or text; none where nothing is sliced.
  std::int64_t context_size() const {
    if (shape_.slice.is_whole()) return 0;
    return 2 * std::int64_t{shape_.microbatch_size} * shape_.model.sequence * heads_.key_width();
  }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    const auto weights = cut_weights(spans.weights);
    const auto stash = cut_stash(spans.stash);
    const auto normed = cut_normed<K>(shape_, spans.stash, spans.scratch);
    normalise(kernels, shape_.norm(), spans.input, weights.norm, normed);
    kernels.matmul(to_qkv(), normed.y, weights.qkv, weights.qkv_bias, stash.qkv);
    place_heads(kernels, weights, stash);
    const Earlier earlier = cut_earlier(spans.earlier);
    kernels.attention(heads_, AttentionForward<T, W>{.qkv = stash.qkv,
                                                     .log_sum = stash.log_sum,
                                                     .y = stash.attended,
                                                     .earlier = earlier,
                                                     .kept = keep(kernels, stash.qkv, spans.kept)});
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
    const std::span<T> attended_gradient = scratch.attended;
    const MatmulShape back{.rows = shape_.rows(), .inner = d_, .columns = queries_};
    kernels.matmul_transposed(back, spans.output_gradient, weights.projection, attended_gradient);
    const Earlier earlier = cut_earlier(spans.earlier);
    if (shape_.slice.later == 0 && !spans.context_gradient.empty())
      kernels.fill(spans.context_gradient, 0.0);
    kernels.attention_backward(heads_,
                               AttentionBackward<T, W>{.qkv = stash.qkv,
                                                       .log_sum = stash.log_sum,
                                                       .y = stash.attended,
                                                       .dy = attended_gradient,
                                                       .dqkv = scratch.qkv,
                                                       .earlier = earlier,
                                                       .context_gradient = spans.context_gradient});
    replace_heads(kernels, weights, stash, scratch);
    const MatmulShape to_norm{.rows = shape_.rows(), .inner = made_, .columns = d_};
    kernels.matmul_transposed(to_norm, scratch.qkv, weights.qkv, scratch.normed);
    norm_backward(kernels, shape_.norm(), spans, weights.norm.gain, normed, scratch.normed,
                  spans.output_gradient);
  }

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    const auto gradients = cut_weights(spans.gradients);
    const auto stash = cut_stash(std::span<const T>(spans.stash));
    const auto normed = cut_normed<K, const T>(shape_, spans.stash, spans.scratch);
    const auto scratch = cut_scratch(spans);
    accumulate_projection(kernels, to_output(), stash.attended, spans.output_gradient,
                          gradients.projection, gradients.projection_bias);
    accumulate_projection(kernels, to_qkv(), normed.y, scratch.qkv, gradients.qkv,
                          gradients.qkv_bias);
    if (built_.head_norm) {
      kernels.head_norm_backward_weight(
          heads_, HeadNormBackwardWeight<T, W>{.inverse_deviation = stash.inverses,
                                               .before = stash.before,
                                               .dy = scratch.heads,
                                               .dquery_gain = gradients.query_gain,
                                               .dkey_gain = gradients.key_gain});
    }
    norm_backward_weight(kernels, shape_.norm(), spans, normed, scratch.normed, gradients.norm);
  }

 private:
  template <class U>
  struct Weights {
    NormWeights<U> norm;
    std::span<U> qkv, qkv_bias, query_gain, key_gain, projection, projection_bias;
  };
  template <class U>
  struct Stash {
    std::span<U> qkv;
    std::span<typename Carver<U, W>::WideU> log_sum;
    std::span<U> attended;
    std::span<typename Carver<U, W>::WideU> inverses;  // of the norms of heads
    std::span<U> before;                               // queries and keys before these
  };
  struct Scratch {
    std::span<T> qkv, attended, normed, heads;  // heads: behind their norms
  };
  using Earlier = std::vector<std::span<const T>>;

  // Braced initialisers run in order.
  template <class U>
  Weights<U> cut_weights(std::span<U> whole) const {
    Carver<U> carver(whole);
    const std::int64_t gain = built_.head_norm ? heads_.head_width() : 0;
    return {take_norm_weights(carver, shape_.norm()),
            carver.take(d_ * made_),
            carver.take(built_.query_bias ? made_ : 0),
            carver.take(gain),
            carver.take(gain),
            carver.take(queries_ * d_),
            carver.take(built_.attention_bias ? d_ : 0)};
  }
  template <class U>
  Stash<U> cut_stash(std::span<U> whole) const {
    Carver<U, W> carver(whole);
    const std::int64_t rows = shape_.rows();
    return {carver.take_part(rows * made_), carver.take_wide(rows * heads_.heads),
            carver.take_part(rows * queries_), carver.take_wide(inverses_size()),
            carver.take_part(before_size())};
  }
  /// Queries, keys and values of each slice before this one.
  Earlier cut_earlier(std::span<const std::span<const T>> stashes) const {
    const std::vector<std::int32_t>& lengths = shape_.slice.earlier;
    TANDEM_CHECK(stashes.size() == lengths.size(), stashes.size(), lengths.size());
    Earlier earlier;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int64_t rows = std::int64_t{shape_.microbatch_size} * lengths[i];
      earlier.push_back(Carver<const T, W>(stashes[i]).take_part(rows * made_));
    }
    return earlier;
  }
  /// Puts keys and values behind those that are kept of the text; all of these. None: no text.
  std::span<const T> keep(K& kernels, std::span<const T> qkv, std::span<T> kept) const {
    if (kept.empty()) return {};
    TANDEM_CHECK(shape_.microbatch_size == 1, shape_.microbatch_size);
    const std::int64_t width = made_ - queries_, before = shape_.slice.kept;
    const auto part = [](auto whole, std::int64_t first, std::int64_t size) {
      return whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
    };
    for (std::int64_t row = 0; row < shape_.rows(); ++row) {
      kernels.copy(part(qkv, row * made_ + queries_, width),
                   part(kept, (before + row) * width, width));
    }
    return part(kept, 0, (before + shape_.rows()) * width);
  }
  /// Gradients.
  Scratch cut_scratch(const BackwardSpans<T, W>& spans) const {
    const std::int64_t rows = shape_.rows();
    Carver<T, W> carver(spans.scratch);
    const std::span<T> either = carver.take_part(rows * std::max(d_, queries_));
    return {Carver<T, W>(spans.inner_gradient).take_part(rows * made_),
            either.first(static_cast<std::size_t>(rows * queries_)),
            either.first(static_cast<std::size_t>(rows * d_)), carver.take_part(before_size())};
  }

  MatmulShape to_qkv() const { return {.rows = shape_.rows(), .inner = d_, .columns = made_}; }
  MatmulShape to_output() const {
    return {.rows = shape_.rows(), .inner = queries_, .columns = d_};
  }

  /// From what the product made to what attention reads.
  void place_heads(K& kernels, const Weights<const T>& weights, const Stash<T>& stash) const {
    if (built_.head_norm) {
      kernels.head_norm(heads_, HeadNormForward<T, W>{.query_gain = weights.query_gain,
                                                      .key_gain = weights.key_gain,
                                                      .inverse_deviation = stash.inverses,
                                                      .before = stash.before,
                                                      .qkv = stash.qkv,
                                                      .epsilon = built_.details.norm_epsilon});
    }
    if (built_.positions == 0) kernels.rotate(heads_, rotation_, stash.qkv);
  }
  /// And back, of gradients.
  void replace_heads(K& kernels, const Weights<const T>& weights, const Stash<const T>& stash,
                     const Scratch& scratch) const {
    if (built_.positions == 0) {
      Rotation back = rotation_;
      back.back = true;
      kernels.rotate(heads_, back, scratch.qkv);
    }
    if (!built_.head_norm) return;
    kernels.head_norm_backward(heads_, HeadNormBackward<T, W>{.query_gain = weights.query_gain,
                                                              .key_gain = weights.key_gain,
                                                              .inverse_deviation = stash.inverses,
                                                              .before = stash.before,
                                                              .dqkv = scratch.qkv,
                                                              .dy = scratch.heads});
  }
  // Of the norms of heads.
  std::int64_t inverses_size() const {
    return built_.head_norm ? shape_.rows() * (heads_.heads + heads_.key_heads()) : 0;
  }
  std::int64_t before_size() const {
    return built_.head_norm ? shape_.rows() * (queries_ + heads_.key_width()) : 0;
  }

  LayerShape shape_;
  TransformerShape built_;
  AttentionShape heads_;
  std::int64_t d_, queries_, made_;  // widths: of the model, of queries, of these, keys and values
  Rotation rotation_;
};

}  // namespace tandem
