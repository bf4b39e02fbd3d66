#pragma once
// Layer norm: a block a row. Means and deviations are taken in float, of the values themselves and
// of their distances from the mean, whatever the activations are stored in.

#include <cmath>
#include <cstdint>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/column_sums.h"

namespace tandem::cuda {

template <class A>
struct NormRow {
  std::int64_t width;
  NormForward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    constexpr float kEpsilon = 1e-5F;
    float* scratch = block.template shared<float>(block.threads());
    const A* x = spans.x.data() + block.index() * width;
    A* y = spans.y.data() + block.index() * width;
    const A *gain = spans.gain.data(), *bias = spans.bias.data();
    const float count = static_cast<float>(width);
    const auto value = [&](std::int64_t i) { return to_float(x[i]); };
    const float mean = sum_all(block, scratch, width, value) / count;
    const auto square = [&](std::int64_t i) { return (value(i) - mean) * (value(i) - mean); };
    const float variance = sum_all(block, scratch, width, square) / count;
    const float inverse = 1.0F / std::sqrt(variance + kEpsilon);
    block.each_thread([&](int thread) {
      for (std::int64_t i = thread; i < width; i += block.threads()) {
        y[i] =
            narrow<A>(std::fma((value(i) - mean) * inverse, to_float(gain[i]), to_float(bias[i])));
      }
      if (thread == 0) {
        spans.mean.data()[block.index()] = mean;
        spans.inverse_deviation.data()[block.index()] = inverse;
      }
    });
  }
};

template <class A>
struct NormRowBackward {
  std::int64_t width;
  NormBackward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    float* scratch = block.template shared<float>(block.threads());
    const std::int64_t start = block.index() * width;
    const A *x = spans.x.data() + start, *dy = spans.dy.data() + start;
    const A *gain = spans.gain.data(), *residual = spans.residual.data();
    A* dx = spans.dx.data() + start;
    const float mean = spans.mean.data()[block.index()];
    const float inverse = spans.inverse_deviation.data()[block.index()];
    const float count = static_cast<float>(width);
    const auto scaled = [&](std::int64_t i) { return to_float(dy[i]) * to_float(gain[i]); };
    const auto normed = [&](std::int64_t i) { return (to_float(x[i]) - mean) * inverse; };
    const auto product = [&](std::int64_t i) { return scaled(i) * normed(i); };
    const float along_ones = sum_all(block, scratch, width, scaled) / count;
    const float along_x = sum_all(block, scratch, width, product) / count;
    each_of(block, 0, width, [&](std::int64_t i) {
      const float rest = std::fma(-normed(i), along_x, scaled(i) - along_ones);
      const float before = residual == nullptr ? 0.0F : to_float(residual[start + i]);
      dx[i] = narrow<A>(std::fma(inverse, rest, before));
    });
  }
};

/// dy · (x − mean) · inverse_deviation, whose sum over rows is the gradient of the gain.
template <class A>
struct GainTerm {
  std::int64_t width;
  const A *x, *dy;
  const float *mean, *inverse_deviation;
  TANDEM_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * width + column;
    return to_float(dy[i]) * (to_float(x[i]) - mean[row]) * inverse_deviation[row];
  }
};

inline constexpr std::int64_t kNormShared = shared_bytes<float>(kThreads);

}  // namespace tandem::cuda
