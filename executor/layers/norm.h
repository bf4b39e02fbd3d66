#pragma once
// The norm that a layer begins with: a layer norm, or an RMS norm.

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "executor/layers/layer.h"

namespace tandem {

/// What a norm leaves for backward; an RMS norm has no mean. `U`, `V`: T and W, const where they
/// are read.
template <class U, class V = U>
struct Normed {
  std::span<V> mean, inverse_deviation;
  std::span<U> y;
};

template <class T, class W>
std::int64_t normed_size(const NormShape& norm) {
  return (norm.is_rms ? 1 : 2) * wide_room<T, W>(norm.of.rows) +
         room<T, W>(norm.of.rows * norm.of.width);
}

template <class U, class W>
Normed<U, typename Carver<U, W>::WideU> take_normed(Carver<U, W>& carver, const NormShape& norm) {
  // Braced initialisers run in order.
  return {carver.take_wide(norm.is_rms ? 0 : norm.of.rows), carver.take_wide(norm.of.rows),
          carver.take_part(norm.of.rows * norm.of.width)};
}

/// A layer's weights begin with them; an RMS norm has no bias.
template <class U>
struct NormWeights {
  std::span<U> gain, bias;
};
template <class U>
NormWeights<U> take_norm_weights(Carver<U>& carver, const NormShape& norm) {
  return {carver.take(norm.of.width), carver.take(norm.is_rms ? 0 : norm.of.width)};
}

template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void normalise(K& kernels, const NormShape& norm, std::span<const T> x,
               const NormWeights<const T>& weights, const Normed<T, W>& normed) {
  const NormForward<T, W> spans{.x = x,
                                .gain = weights.gain,
                                .bias = weights.bias,
                                .mean = normed.mean,
                                .inverse_deviation = normed.inverse_deviation,
                                .y = normed.y,
                                .epsilon = norm.epsilon};
  if (norm.is_rms) {
    kernels.rms_norm(norm.of, spans);
  } else {
    kernels.layer_norm(norm.of, spans);
  }
}

/// The gradient of the input through the norm that a layer begins with. `dy`: of the normed values;
/// `residual`: see NormBackward.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void norm_backward(K& kernels, const NormShape& norm, const BackwardSpans<T, W>& spans,
                   std::span<const T> gain, const Normed<const T, const W>& normed,
                   std::type_identity_t<std::span<const T>> dy, std::span<const T> residual) {
  const NormBackward<T, W> through{.x = spans.input,
                                   .mean = normed.mean,
                                   .inverse_deviation = normed.inverse_deviation,
                                   .gain = gain,
                                   .dy = dy,
                                   .residual = residual,
                                   .dx = spans.input_gradient};
  if (norm.is_rms) {
    kernels.rms_norm_backward(norm.of, through);
  } else {
    kernels.layer_norm_backward(norm.of, through);
  }
}

/// And those of its weights.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void norm_backward_weight(K& kernels, const NormShape& norm, const BackwardSpans<T, W>& spans,
                          const Normed<const T, const W>& normed,
                          std::type_identity_t<std::span<const T>> dy,
                          const NormWeights<W>& gradients) {
  const NormBackwardWeight<T, W> sums{.x = spans.input,
                                      .mean = normed.mean,
                                      .inverse_deviation = normed.inverse_deviation,
                                      .dy = dy,
                                      .dgain = gradients.gain,
                                      .dbias = gradients.bias};
  if (norm.is_rms) {
    kernels.rms_norm_backward_weight(norm.of, sums);
  } else {
    kernels.layer_norm_backward_weight(norm.of, sums);
  }
}

/// The norm that a layer begins with, where that is all that is cheap to make again of it.
template <Kernels K, class U, class W = typename K::Wide>
auto cut_normed(const LayerShape& shape, std::span<U> stash, std::span<U> scratch) {
  const std::int64_t size = normed_size<typename K::Scalar, W>(shape.norm());
  auto carver = cheap_part<W>(shape, stash, scratch, size);
  return take_normed(carver, shape.norm());
}

/// Makes it again into scratch with selective recomputation.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void normalise_again(K& kernels, const LayerShape& shape, const BackwardSpans<T, W>& spans) {
  if (!shape.drops()) return;
  Carver<const T> weights(spans.weights);
  const NormShape norm = shape.norm();
  normalise(kernels, norm, spans.input, take_norm_weights(weights, norm),
            cut_normed<K, T>(shape, {}, spans.scratch));
}

/// Gain and, of a layer norm, bias, as they stand first among a layer's tensors.
std::vector<Tensor> norm_tensors(const std::string& prefix, const NormShape& norm);

/// dw += xᵀ·dy, db += Σ rows of dy; db may be empty: there is no bias.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void accumulate_projection(K& kernels, const MatmulShape& shape, std::span<const T> x,
                           std::type_identity_t<std::span<const T>> dy, std::span<W> dw,
                           std::span<W> db) {
  if (db.empty()) {
    kernels.accumulate_product(shape, x, dy, dw);
  } else {
    kernels.accumulate_product_and_rows(shape, x, dy, dw, db);
  }
}

}  // namespace tandem
