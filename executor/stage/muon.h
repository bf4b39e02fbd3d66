#pragma once
// Muon: of a matrix's momentum, with Nesterov's look ahead, the nearest orthogonal matrix is what a
// step takes off, nearly: five steps of a Newton-Schulz iteration take singular values between 0.01
// and 1 to between 0.68 and 1.13. The form and the numbers are torch.optim.Muon's (K. Jordan 2024;
// the scale that goes with AdamW's rates: arXiv 2502.16982).
//
// Products are the backend's, of numbers as it stores activations: in float where these are float,
// in bfloat16 where they are bfloat16, as torch has it. No matrix is ever split between stages, so
// the bits depend on neither cut nor width.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/layers/layer.h"

namespace tandem {

/// How long a step is, times its rate: of an orthogonal matrix of `inputs` rows and `outputs`
/// columns, as products read it.
enum class MuonScale : std::uint8_t {
  match_rms_adamw,  // 0.2 √max(inputs, outputs): elements move as far as AdamW moves them
  original,         // √max(1, outputs / inputs)
};
inline constexpr std::size_t kMuonScales = 2;
/// "match-rms-adamw", "original".
constexpr std::string_view name(MuonScale scale) {
  return scale == MuonScale::original ? "original" : "match-rms-adamw";
}

inline double muon_scale(MuonScale scale, MatmulShape matrix) {
  const auto inputs = static_cast<double>(matrix.inner);
  const auto outputs = static_cast<double>(matrix.columns);
  if (scale == MuonScale::original) return std::sqrt(std::max(1.0, outputs / inputs));
  return 0.2 * std::sqrt(std::max(inputs, outputs));
}

/// A hidden matrix: inner × columns.
inline MatmulShape matrix_of(const Tensor& tensor) {
  TANDEM_CHECK(tensor.hidden && tensor.shape.size() == 2, tensor.shape.size());
  return {.inner = tensor.shape[0], .columns = tensor.shape[1]};
}

/// Where a matrix X is made orthogonal. `slope`, not rounded, lies where `product` is made later,
/// and `exact` where `square` is.
template <class T, class W>
struct OrthogonalScratch {
  std::span<double> norm;  // its square
  std::span<T> x, product;
  std::span<W> slope;
  std::span<T> gram, square;
  std::span<W> exact;

  OrthogonalScratch(std::span<T> whole, MatmulShape matrix) {
    Carver<T, W> carver(whole);
    norm = {reinterpret_cast<double*>(carver.take(kSquares).data()), 1};
    const std::int64_t size = matrix.inner * matrix.columns, of_gram = gram_size(matrix);
    x = carver.take_part(size);
    const std::span<T> first = carver.take(wide_room<T, W>(size));
    product = first.first(static_cast<std::size_t>(size));
    slope = {reinterpret_cast<W*>(first.data()), static_cast<std::size_t>(size)};
    gram = carver.take_part(of_gram);
    const std::span<T> second = carver.take(wide_room<T, W>(of_gram));
    square = second.first(static_cast<std::size_t>(of_gram));
    exact = {reinterpret_cast<W*>(second.data()), static_cast<std::size_t>(of_gram)};
  }

  static std::int64_t elements(MatmulShape matrix) {
    const std::int64_t size = matrix.inner * matrix.columns, of_gram = gram_size(matrix);
    return kSquares + room<T, W>(size) + wide_room<T, W>(size) + room<T, W>(of_gram) +
           wide_room<T, W>(of_gram);
  }

 private:
  static constexpr std::int64_t kSquares = 16 / sizeof(T);
  static std::int64_t gram_size(MatmulShape matrix) {
    const std::int64_t least = std::min(matrix.inner, matrix.columns);
    return least * least;
  }
};

/// Elements of scratch that an update of these tensors needs.
template <class T, class W>
std::int64_t muon_scratch(std::span<const Tensor> tensors) {
  std::int64_t most = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.hidden) most = std::max(most, OrthogonalScratch<T, W>::elements(matrix_of(tensor)));
  }
  return most;
}

/// The product of X with itself that is the smaller one: X·Xᵀ, or Xᵀ·X of a tall one.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void multiply_by_itself(K& kernels, MatmulShape matrix, const OrthogonalScratch<T, W>& at) {
  const std::int64_t rows = matrix.inner, columns = matrix.columns;
  if (rows <= columns) {
    kernels.matmul_transposed({.rows = rows, .inner = columns, .columns = rows}, at.x, at.x,
                              at.gram);
    return;
  }
  const MatmulShape tall{.rows = rows, .inner = columns, .columns = columns};
  if constexpr (std::same_as<T, W>) {
    kernels.fill(at.gram, 0.0);
    kernels.accumulate_product(tall, at.x, at.x, at.gram);
  } else {
    kernels.fill(at.exact, 0.0);
    kernels.accumulate_product(tall, at.x, at.x, at.exact);
    kernels.store(at.exact, at.gram);
  }
}

/// Leaves in `at.x` what is near the orthogonal matrix nearest to `at.slope`. FLOPs: 20m²n + 10m³,
/// m the smaller side.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void orthogonalise(K& kernels, MatmulShape matrix, const OrthogonalScratch<T, W>& at) {
  constexpr int kSteps = 5;
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // of Jordan
  const ElementRange whole{0, std::ssize(at.slope)};
  kernels.sums_of_squares(at.slope, std::span(&whole, 1), 1.0, at.norm);
  kernels.divide_by_norm(at.slope, at.norm, at.x);
  const std::int64_t rows = matrix.inner, columns = matrix.columns;
  const std::int64_t least = std::min(rows, columns);
  for (int step = 0; step < kSteps; ++step) {
    multiply_by_itself(kernels, matrix, at);
    kernels.matmul({.rows = least, .inner = least, .columns = least}, at.gram, at.gram, {},
                   at.square);
    kernels.combine(kB, at.gram, kC, at.square, at.gram);
    const MatmulShape by{.rows = rows, .inner = least, .columns = columns};
    if (rows <= columns)
      kernels.matmul(by, at.gram, at.x, {}, at.product);
    else
      kernels.matmul(by, at.x, at.gram, {}, at.product);
    kernels.combine(kA, at.x, 1.0, at.product, at.x);
  }
}

/// One step of a matrix. `spans` are of it alone: its gradient, its momentum in `first`. Of
/// `numbers` the rate is Muon's and beta1 the momentum's; the scale is made here.
template <Kernels K, class T = typename K::Scalar, class W = typename K::Wide>
void step_matrix(K& kernels, MatmulShape matrix, MuonScale scale, StepSpans<T, W> spans,
                 StepNumbers numbers, std::span<T> scratch) {
  NesterovSpans<W> momentum{
      .gradient = spans.gradient, .momentum = spans.first, .keeps_state = spans.keeps_state};
  if (spans.weights_out.empty() && spans.last_step.empty())
    return kernels.nesterov(momentum, numbers);
  const OrthogonalScratch<T, W> at(scratch, matrix);
  momentum.slope = at.slope;
  kernels.nesterov(momentum, numbers);
  orthogonalise(kernels, matrix, at);
  numbers.change_scale = muon_scale(scale, matrix);
  spans.gradient = {};
  spans.first = {};
  spans.change = at.x;
  kernels.step(OptimizerKind::muon, spans, numbers);
}

}  // namespace tandem
