#include "executor/cpu/kernels.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "executor/backend/step_rules.h"
#include "executor/backend/strided_products.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/products.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {
namespace {

constexpr std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

constexpr std::int32_t kTokenLimit = 1 << 24;  // beyond, float skips integers

}  // namespace

template <>
Kernels<float>::Kernels() : product_(float_product()), block_product_(float_block_product()) {}

template <>
Kernels<double>::Kernels() : Kernels(gemm<double>) {}

template <class T>
void Kernels<T>::fill(Out y, double value) const {
  std::fill(y.begin(), y.end(), static_cast<T>(value));
}

template <class T>
void Kernels<T>::copy(In x, Out y) const {
  TANDEM_CHECK(x.size() == y.size(), x.size(), y.size());
  std::copy(x.begin(), x.end(), y.begin());
}

template <class T>
void Kernels<T>::add(In a, In b, Out y) const {
  TANDEM_CHECK(a.size() == y.size() && b.size() == y.size(), a.size(), b.size(), y.size());
  const T *left = a.data(), *right = b.data();
  T* out = y.data();
  on_widest_vectors([=, size = y.size()]() TANDEM_LOOPS {
    for (std::size_t i = 0; i < size; ++i) out[i] = left[i] + right[i];
  });
}

template <class T>
void Kernels<T>::combine(double a, In x, double b, In y, Out out) const {
  TANDEM_CHECK(x.size() == out.size() && y.size() == out.size(), x.size(), y.size(), out.size());
  const T *left = x.data(), *right = y.data();
  T* made = out.data();
  on_widest_vectors([=, size = out.size(), of_left = static_cast<T>(a),
                     of_right = static_cast<T>(b)]() TANDEM_LOOPS {
    for (std::size_t i = 0; i < size; ++i) made[i] = fused(of_left, left[i], of_right * right[i]);
  });
}

namespace {

template <class T>
double sum_of_squares(std::span<const T> x) {
  constexpr std::size_t kSums = 8;  // enough to hide the latency of an addition
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= x.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double value = x[i + j];
      sums[j] += value * value;
    }
  }
  for (std::size_t j = 0; i < x.size(); ++i, ++j) {
    const double value = x[i];
    sums[j] += value * value;
  }
  double total = 0.0;
  for (const double part : sums) total += part;
  return total;
}

}  // namespace

template <class T>
void Kernels<T>::sums_of_squares(In x, std::span<const ElementRange> ranges, double factor,
                                 std::span<double> sums) const {
  TANDEM_CHECK(ranges.size() == sums.size(), ranges.size(), sums.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    sums[i] = factor * sum_of_squares(x.subspan(static_cast<std::size_t>(ranges[i].first),
                                                static_cast<std::size_t>(ranges[i].size())));
  }
}

namespace {

template <class A, class>
using GemmOf = Gemm<A>;

template <class T>
Gemm<T> dense(Gemm<T> product) {
  product.c_row = product.columns;
  return product;
}

}  // namespace

template <class T>
void Kernels<T>::matmul(MatmulShape shape, In x, In w, In bias, Out y) const {
  product_(dense(matmul_product<GemmOf>(shape, x, w, bias, y)));
}

template <class T>
void Kernels<T>::matmul_transposed(MatmulShape shape, In x, In w, Out y) const {
  product_(dense(matmul_transposed_product<GemmOf>(shape, x, w, y)));
}

template <class T>
void Kernels<T>::accumulate_product(MatmulShape shape, In x, In dy, Out dw) const {
  product_(dense(accumulated_product<GemmOf>(shape, x, dy, dw)));
}

template <class T>
void Kernels<T>::accumulate_rows(RowShape shape, In dy, Out db) const {
  check_size(dy, shape.rows * shape.width);
  check_size(db, shape.width);
  const std::size_t rows = to_size(shape.rows), width = to_size(shape.width);
  const T* from = dy.data();
  T* sums = db.data();
  on_widest_vectors([=]() TANDEM_LOOPS {
    for (std::size_t row = 0; row < rows; ++row) {
      const T* gradient = from + row * width;
      for (std::size_t i = 0; i < width; ++i) sums[i] += gradient[i];
    }
  });
}

template <class T>
void Kernels<T>::layer_norm(RowShape shape, const NormForward<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, spans.y);
  check_sizes(shape.rows, spans.mean, spans.inverse_deviation);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const T epsilon = static_cast<T>(spans.epsilon);
    const std::size_t width = to_size(shape.width);
    const T count = static_cast<T>(width);
    const T *gain = spans.gain.data(), *bias = spans.bias.data();
    for (std::size_t row = 0; row < to_size(shape.rows); ++row) {
      const T* x = spans.x.data() + row * width;
      T* y = spans.y.data() + row * width;
      const T mean = lane_sum<T>(width, [x](std::size_t i) TANDEM_LOOPS { return x[i]; }) / count;
      const auto square = [=](std::size_t i) TANDEM_LOOPS { return (x[i] - mean) * (x[i] - mean); };
      const T inverse = T{1} / std::sqrt(lane_sum<T>(width, square) / count + epsilon);
      for (std::size_t i = 0; i < width; ++i)
        y[i] = fused((x[i] - mean) * inverse, gain[i], bias[i]);
      spans.mean[row] = mean;
      spans.inverse_deviation[row] = inverse;
    }
  });
}

template <class T>
void Kernels<T>::layer_norm_backward(RowShape shape, const NormBackward<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, spans.dy, spans.dx);
  if (!spans.residual.empty()) check_size(spans.residual, shape.rows * shape.width);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const std::size_t width = to_size(shape.width);
    const T count = static_cast<T>(width);
    const T* gain = spans.gain.data();
    for (std::size_t row = 0; row < to_size(shape.rows); ++row) {
      const T* x = spans.x.data() + row * width;
      const T* dy = spans.dy.data() + row * width;
      const T* residual = spans.residual.empty() ? nullptr : spans.residual.data() + row * width;
      T* dx = spans.dx.data() + row * width;
      const T mean = spans.mean[row];
      const T inverse = spans.inverse_deviation[row];
      const auto scaled = [=](std::size_t i) TANDEM_LOOPS { return dy[i] * gain[i]; };
      const auto normed = [=](std::size_t i) TANDEM_LOOPS { return (x[i] - mean) * inverse; };
      const auto product = [=](std::size_t i) TANDEM_LOOPS { return scaled(i) * normed(i); };
      const T along_ones = lane_sum<T>(width, scaled) / count;
      const T along_x = lane_sum<T>(width, product) / count;
      for (std::size_t i = 0; i < width; ++i) {
        const T rest = fused(-normed(i), along_x, scaled(i) - along_ones);
        dx[i] = residual == nullptr ? inverse * rest : fused(inverse, rest, residual[i]);
      }
    }
  });
}

template <class T>
void Kernels<T>::layer_norm_backward_weight(RowShape shape,
                                            const NormBackwardWeight<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, spans.dy);
  check_sizes(shape.width, spans.dgain, spans.dbias);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const std::size_t width = to_size(shape.width);
    T *dgain = spans.dgain.data(), *dbias = spans.dbias.data();
    for (std::size_t row = 0; row < to_size(shape.rows); ++row) {
      const T* x = spans.x.data() + row * width;
      const T* dy = spans.dy.data() + row * width;
      const T mean = spans.mean[row];
      const T inverse = spans.inverse_deviation[row];
      for (std::size_t i = 0; i < width; ++i) {
        dgain[i] = fused(dy[i], (x[i] - mean) * inverse, dgain[i]);
        dbias[i] += dy[i];
      }
    }
  });
}

namespace {

// gelu(x) = ½x(1 + tanh u) = x·σ(2u), u = √(2/π)·(x + 0.044715x³).
template <class T>
inline constexpr T kGeluSlope = static_cast<T>(1.5957691216057308);  // 2·√(2/π)
template <class T>
inline constexpr T kGeluCubic = static_cast<T>(1.5957691216057308 * 0.044715);

template <class T>
TANDEM_LOOPS inline T gelu_gate(T x) {
  return T{1} / (T{1} + exponential(-x * fused(kGeluCubic<T> * x, x, kGeluSlope<T>)));
}

}  // namespace

template <class T>
void Kernels<T>::gelu(In x, Out y) const {
  TANDEM_CHECK(x.size() == y.size(), x.size(), y.size());
  const T* from = x.data();
  T* to = y.data();
  on_widest_vectors([=, size = y.size()]() TANDEM_LOOPS {
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i] * gelu_gate(from[i]);
  });
}

template <class T>
void Kernels<T>::gelu_backward(In x, In dy, Out dx) const {
  TANDEM_CHECK(x.size() == dx.size() && dy.size() == dx.size(), x.size(), dy.size(), dx.size());
  const T *from = x.data(), *gradient = dy.data();
  T* to = dx.data();
  on_widest_vectors([=, size = dx.size()]() TANDEM_LOOPS {
    for (std::size_t i = 0; i < size; ++i) {
      const T gate = gelu_gate(from[i]);
      const T slope = fused(3 * kGeluCubic<T> * from[i], from[i], kGeluSlope<T>);
      to[i] = gradient[i] * fused(from[i] * gate * (T{1} - gate), slope, gate);
    }
  });
}

template <class T>
void Kernels<T>::keep_tokens(std::span<const std::int32_t> tokens, Out kept) const {
  TANDEM_CHECK(tokens.size() == kept.size(), tokens.size(), kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    TANDEM_CHECK(tokens[i] >= 0 && tokens[i] < kTokenLimit, tokens[i]);
    kept[i] = static_cast<T>(tokens[i]);
  }
}

template <class T>
void Kernels<T>::embed(AttentionShape shape, In tokens, In table, In positions, Out y) const {
  check_size(tokens, shape.batch * shape.sequence);
  if (!positions.empty()) check_size(positions, shape.sequence * shape.width);
  check_size(y, shape.batch * shape.sequence * shape.width);
  const std::size_t width = to_size(shape.width);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const std::size_t token = static_cast<std::size_t>(tokens[row]);
    TANDEM_CHECK((token + 1) * width <= table.size(), token, table.size());
    const T* meaning = table.data() + token * width;
    T* out = y.data() + row * width;
    if (positions.empty()) {
      std::copy_n(meaning, width, out);
      continue;
    }
    const T* place = positions.data() + row % to_size(shape.sequence) * width;
    add({meaning, width}, {place, width}, {out, width});
  }
}

template <class T>
void Kernels<T>::embed_backward(AttentionShape shape, In tokens, In dy, Out dtable,
                                Out dpositions) const {
  check_size(tokens, shape.batch * shape.sequence);
  if (!dpositions.empty()) check_size(dpositions, shape.sequence * shape.width);
  check_size(dy, shape.batch * shape.sequence * shape.width);
  const std::size_t width = to_size(shape.width);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const std::size_t token = static_cast<std::size_t>(tokens[row]);
    TANDEM_CHECK((token + 1) * width <= dtable.size(), token, dtable.size());
    const T* gradient = dy.data() + row * width;
    T* meaning = dtable.data() + token * width;
    for (std::size_t i = 0; i < width; ++i) meaning[i] += gradient[i];
    if (dpositions.empty()) continue;
    T* place = dpositions.data() + row % to_size(shape.sequence) * width;
    for (std::size_t i = 0; i < width; ++i) place[i] += gradient[i];
  }
}

template <class T>
void Kernels<T>::cross_entropy(RowShape shape, std::span<const std::int32_t> targets, double scale,
                               Out logits, double* loss) const {
  check_size(targets, shape.rows);
  check_size(logits, shape.rows * shape.width);
  const std::size_t width = to_size(shape.width);
  for (const std::int32_t target : targets)
    TANDEM_CHECK(target >= 0 && target < shape.width, target, shape.width);
  const auto sum_losses = [=]() TANDEM_LOOPS {
    double sum_of_rows = 0.0;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      T* x = logits.data() + row * width;
      T& wanted = x[static_cast<std::size_t>(targets[row])];
      const T peak = largest(x, width);
      const double above = static_cast<double>(peak) - static_cast<double>(wanted);
      for (std::size_t i = 0; i < width; ++i) x[i] = exponential(x[i] - peak);
      const T sum = lane_sum<T>(width, [x](std::size_t i) TANDEM_LOOPS { return x[i]; });
      sum_of_rows += std::log(static_cast<double>(sum)) + above;
      const T factor = static_cast<T>(scale) / sum;
      for (std::size_t i = 0; i < width; ++i) x[i] *= factor;
      wanted -= static_cast<T>(scale);
    }
    return sum_of_rows;
  };
  const double sum = on_widest_vectors(sum_losses);
  if (loss != nullptr) *loss = sum / static_cast<double>(shape.rows);
}

template <class T>
void Kernels<T>::squared_error(RowShape shape, In y, In expected, double scale, Out gradient,
                               double* loss) const {
  check_sizes(shape.rows * shape.width, y, expected, gradient);
  double sum = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const T error = y[i] - expected[i];
    sum += static_cast<double>(error) * static_cast<double>(error);
    gradient[i] = static_cast<T>(scale) * error;
  }
  if (loss != nullptr) *loss = 0.5 * sum / static_cast<double>(shape.rows);
}

template <class T>
void Kernels<T>::decide(std::span<const double> squares, const DecideNumbers& numbers,
                        const UpdateDecision* before, UpdateDecision* decision,
                        const ShownDecision& shown) const {
  *decision = tandem::decide(numbers, squares, before);
  if (shown.decision != nullptr) *shown.decision = *decision;
  if (shown.squares != nullptr) std::ranges::copy(squares, shown.squares);
}

template class Kernels<float>;
template class Kernels<double>;

}  // namespace tandem::cpu
