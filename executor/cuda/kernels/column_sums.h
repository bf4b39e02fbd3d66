#pragma once
// Sums over the rows of a matrix, for each column: gradients of biases and of norms. Rows are cut
// into chunks, summed side by side in ascending order; then chunks are, in theirs. So the order
// depends on the shape alone.

#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

inline constexpr std::int64_t kRowsOfChunk = 64;

/// Elements of partial sums that sum_columns() asks of the grid's workspace.
constexpr std::int64_t column_sums_workspace(RowShape shape) {
  return divide_up(shape.rows, kRowsOfChunk) * shape.width;
}

/// partial[chunk][column] = Σ term(row, column) over the rows of the chunk, one thread a sum.
template <class Term>
struct ChunkSums {
  RowShape shape;
  Term term;
  float* partial;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t column = i % shape.width;
    const std::int64_t first = i / shape.width * kRowsOfChunk;
    const std::int64_t last = first + kRowsOfChunk < shape.rows ? first + kRowsOfChunk : shape.rows;
    float sum = 0.0F;
    for (std::int64_t row = first; row < last; ++row) sum += term(row, column);
    partial[i] = sum;
  }
};

/// sums[column] += Σ of the chunks.
struct AddChunks {
  std::int64_t chunks, width;
  const float* partial;
  float* sums;
  TANDEM_DEVICE void operator()(std::int64_t column) const {
    float sum = 0.0F;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * width + column];
    sums[column] += sum;
  }
};

/// sums[column] += Σ over rows of term(row, column).
template <class Grid, class Term>
void sum_columns(Grid& grid, RowShape shape, const Term& term, std::span<float> sums) {
  TANDEM_CHECK(std::ssize(sums) == shape.width, sums.size(), shape.width);
  const std::int64_t partials = column_sums_workspace(shape);
  float* partial = grid.template workspace<float>(partials);
  run_each_element(grid, partials, ChunkSums<Term>{shape, term, partial});
  run_each_element(
      grid, shape.width,
      AddChunks{divide_up(shape.rows, kRowsOfChunk), shape.width, partial, sums.data()});
}

template <class A>
struct MatrixTerm {
  std::int64_t width;
  const A* x;
  TANDEM_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    return to_float(x[row * width + column]);
  }
};

/// db += Σ rows of dy.
template <class Grid, class A>
void accumulate_rows(Grid& grid, RowShape shape, std::span<const A> dy, std::span<float> db) {
  TANDEM_CHECK(std::ssize(dy) == shape.rows * shape.width, dy.size(), shape.rows, shape.width);
  sum_columns(grid, shape, MatrixTerm<A>{shape.width, dy.data()}, db);
}

}  // namespace tandem::cuda
