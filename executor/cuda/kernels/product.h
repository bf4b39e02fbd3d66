#pragma once
// A product of matrices in tiles of 16 × 16, each element a chain of fused multiply-adds in
// ascending order of the inner index. Slow: what cublasLt is checked with, and what stands in for
// it where it is not there.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/strided_products.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/column_sums.h"
#include "executor/cuda/kernels/elementwise.h"

namespace tandem::cuda {

/// C = A·B + bias, or C += A·B. Strides are in elements; `A` is what factors are stored as. At most
/// one of the last three, which are made along the way, is there.
template <class A, class C>
struct ProductSpans {
  std::int64_t rows = 0, inner = 0, columns = 0;
  const A* a = nullptr;
  std::int64_t a_row = 0, a_inner = 1;
  const A* b = nullptr;
  std::int64_t b_inner = 0, b_column = 1;
  C* c = nullptr;
  std::int64_t c_row = 0;  // how far rows are apart; 0: `columns`, as where more is made of them
  bool adds = false;
  const C* bias = nullptr;
  C* before_gelu = nullptr;       // takes A·B + bias, and C its GELU
  const C* gelu_input = nullptr;  // C = A·B, each element times the slope of GELU here
  float* column_sums = nullptr;   // += Σ rows of B, whose columns are side by side
};

/// A matrix in the workspace begins at 256 bytes, as libraries like it.
inline constexpr std::int64_t kAlignedBf16 = 128;

inline constexpr int kTile = 16;
static_assert(kTile * kTile == kThreads);

/// A block a tile of C, a thread an element of it.
template <class A, class C>
struct ProductTile {
  ProductSpans<A, C> p;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t tiles_across = (p.columns + kTile - 1) / kTile;
    const std::int64_t first_row = block.index() / tiles_across * kTile;
    const std::int64_t first_column = block.index() % tiles_across * kTile;
    float* a = block.template shared<float>(kThreads);
    float* b = block.template shared<float>(kThreads);
    const auto sum = block.template per_thread<float>(),
               column_sum = block.template per_thread<float>();
    const bool sums_columns = p.column_sums != nullptr && first_row == 0;
    block.each_thread([&](int thread) { sum[thread] = column_sum[thread] = 0.0F; });
    for (std::int64_t k = 0; k < p.inner; k += kTile) {
      block.each_thread([&](int thread) {
        // Neighbours read neighbours, whichever way the factor lies.
        const int across = thread % kTile, down = thread / kTile;
        const int a_row = p.a_inner == 1 ? down : across, a_inner = p.a_inner == 1 ? across : down;
        a[a_row * kTile + a_inner] =
            first_row + a_row < p.rows && k + a_inner < p.inner
                ? to_float(p.a[(first_row + a_row) * p.a_row + (k + a_inner) * p.a_inner])
                : 0.0F;
        const int b_inner = p.b_column == 1 ? down : across,
                  b_column = p.b_column == 1 ? across : down;
        b[b_inner * kTile + b_column] =
            k + b_inner < p.inner && first_column + b_column < p.columns
                ? to_float(p.b[(k + b_inner) * p.b_inner + (first_column + b_column) * p.b_column])
                : 0.0F;
      });
      block.each_thread([&](int thread) {
        const int row = thread / kTile, column = thread % kTile;
        for (int i = 0; i < kTile; ++i)
          sum[thread] = std::fma(a[row * kTile + i], b[i * kTile + column], sum[thread]);
        if (!sums_columns || row > 0) return;
        for (int i = 0; i < kTile; ++i) column_sum[thread] += b[i * kTile + column];
      });
    }
    block.each_thread([&](int thread) {
      const std::int64_t row = first_row + thread / kTile, column = first_column + thread % kTile;
      if (row >= p.rows || column >= p.columns) return;
      store(row * (p.c_row > 0 ? p.c_row : p.columns) + column, column, sum[thread]);
      if (sums_columns && row == 0) p.column_sums[column] += column_sum[thread];
    });
  }

 private:
  /// Element `i` of C, in a column.
  TANDEM_DEVICE void store(std::int64_t i, std::int64_t column, float sum) const {
    const float start = p.adds              ? to_float(p.c[i])
                        : p.bias != nullptr ? to_float(p.bias[column])
                                            : 0.0F;
    float made = start + sum;
    if (p.before_gelu != nullptr) {
      p.before_gelu[i] = narrow<C>(made);
      made = to_float(p.before_gelu[i]);  // as finish(), and who makes it again, will read it
      made *= gelu_gate(made);
    }
    if (p.gelu_input != nullptr) made *= gelu_slope(to_float(p.gelu_input[i]));
    p.c[i] = narrow<C>(made);
  }
};

template <class Grid, class A, class C>
void product(Grid& grid, const ProductSpans<A, C>& spans) {
  const std::int64_t tiles = divide_up(spans.rows, kTile) * divide_up(spans.columns, kTile);
  grid.run({.blocks = tiles, .shared_bytes = 2 * shared_bytes<float>(kThreads)},
           ProductTile<A, C>{spans});
}

/// A product without what is made along the way: finish() makes that of the result.
template <class A, class C>
ProductSpans<A, C> without_epilogue(ProductSpans<A, C> p) {
  if (p.before_gelu != nullptr) p.c = p.before_gelu;
  p.before_gelu = nullptr;
  p.gelu_input = nullptr;
  p.column_sums = nullptr;
  return p;
}

template <class Grid, class A, class C>
void finish(Grid& grid, const ProductSpans<A, C>& p) {
  const auto size = static_cast<std::size_t>(p.rows * p.columns);
  const std::span<C> c(p.c, size);
  if (p.before_gelu != nullptr) gelu(grid, std::span<const C>(p.before_gelu, size), c);
  if (p.gelu_input != nullptr)
    gelu_backward(grid, std::span(p.gelu_input, size), std::span<const C>(c), c);
  if (p.column_sums == nullptr) return;
  TANDEM_CHECK(p.b_column == 1 && p.b_inner == p.columns, p.b_column, p.b_inner);
  accumulate_rows(grid, {.rows = p.inner, .width = p.columns},
                  std::span(p.b, static_cast<std::size_t>(p.inner * p.columns)),
                  std::span(p.column_sums, static_cast<std::size_t>(p.columns)));
}

/// Elements of Bf16 that round_factors() asks of the grid's workspace for a product of this shape,
/// its transpose, and what is accumulated of it.
constexpr std::int64_t rounded_factors_workspace(MatmulShape shape) {
  const std::int64_t x = shape.rows * shape.inner, w = shape.inner * shape.columns,
                     y = shape.rows * shape.columns;
  return std::max({x + w, y + w, x + y}) + kAlignedBf16;
}

/// The same product of rounded factors, which then lie in the grid's workspace. Sums of columns are
/// made here, of what is not rounded.
template <class Grid>
ProductSpans<Bf16, float> round_factors(Grid& grid, const ProductSpans<float, float>& p) {
  if (p.column_sums != nullptr) finish(grid, p);
  const std::int64_t a_size = p.rows * p.inner, b_size = p.inner * p.columns;
  const std::int64_t b_first = divide_up(a_size, kAlignedBf16) * kAlignedBf16;
  Bf16* const a = grid.template workspace<Bf16>(b_first + b_size);
  Bf16* const b = a + b_first;
  run_each_pack(grid, a_size, Convert<float, Bf16>{p.a, a}, p.a, a);
  run_each_pack(grid, b_size, Convert<float, Bf16>{p.b, b}, p.b, b);
  return {.rows = p.rows,
          .inner = p.inner,
          .columns = p.columns,
          .a = a,
          .a_row = p.a_row,
          .a_inner = p.a_inner,
          .b = b,
          .b_inner = p.b_inner,
          .b_column = p.b_column,
          .c = p.c,
          .c_row = p.c_row,
          .adds = p.adds,
          .bias = p.bias,
          .before_gelu = p.before_gelu,
          .gelu_input = p.gelu_input};
}

}  // namespace tandem::cuda
