#pragma once
// A product of row-major matrices as libraries of column-major ones see it: they are handed Bᵀ·Aᵀ
// and make Cᵀ, which lies in memory as C does.

#include <algorithm>
#include <cstdint>

#include "executor/cuda/kernels/product.h"

namespace tandem::cuda {

/// A matrix in column-major order: element (i, j) at i + j·leading.
struct ColumnMajor {
  std::int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;  // the factor is its transpose
  friend auto operator<=>(const ColumnMajor&, const ColumnMajor&) = default;
};

struct ProductLayout {
  ColumnMajor left;   // B
  ColumnMajor right;  // A
  ColumnMajor result;
  friend auto operator<=>(const ProductLayout&, const ProductLayout&) = default;
};

/// A factor of (rows × columns) whose element (i, j) is at i·row + j·column, one of them 1. What
/// has one column has no use for the distance to the next.
constexpr ColumnMajor layout_of_factor(std::int64_t rows, std::int64_t columns, std::int64_t row,
                                       std::int64_t column) {
  if (row == 1) return {rows, columns, std::max(column, rows), false};
  return {columns, rows, std::max(row, columns), true};
}

/// REQUIRES: of the two strides of each factor one is 1.
template <class A, class C>
constexpr ProductLayout layout_of(const ProductSpans<A, C>& p) {
  return {.left = layout_of_factor(p.columns, p.inner, p.b_column, p.b_inner),
          .right = layout_of_factor(p.inner, p.rows, p.a_inner, p.a_row),
          .result = {p.columns, p.rows, p.c_row > 0 ? p.c_row : p.columns, false}};
}

}  // namespace tandem::cuda
