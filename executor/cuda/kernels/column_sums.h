#pragma once
// Sums over the rows of a matrix, for each column: gradients of biases and of norms. Rows are cut
// into chunks, summed side by side in ascending order; then chunks are, in theirs. So the order
// depends on the shape alone.

#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

inline constexpr std::int64_t kRowsOfChunk = 16;

/// Elements of partial sums that sum_columns() asks of the grid's workspace, for `sums` of them.
constexpr std::int64_t column_sums_workspace(RowShape shape, std::int64_t sums) {
  return sums * divide_up(shape.rows, kRowsOfChunk) * shape.width;
}

/// partial[sum][chunk][column] = Σ of the term over the rows of the chunk, a thread a pack of columns.
template <class Term>
struct ChunkSums {
  RowShape shape;
  bool whole;
  Term term;
  float* partial;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t packs = divide_up(shape.width, kPack), chunk = i / packs;
    const std::int64_t column = i % packs * kPack, first = chunk * kRowsOfChunk;
    const std::int64_t last = first + kRowsOfChunk < shape.rows ? first + kRowsOfChunk : shape.rows;
    Pack sums[Term::kSums] = {};
    for (std::int64_t row = first; row < last; ++row)
      term.add(row, {row * shape.width + column, shape.width - column, whole}, sums);
    const std::int64_t chunks = divide_up(shape.rows, kRowsOfChunk);
    for (int sum = 0; sum < Term::kSums; ++sum) {
      store_pack(partial + (sum * chunks + chunk) * shape.width + column, shape.width - column, whole,
                 sums[sum]);
    }
  }
};

/// sums[column] += Σ of the chunks: kThreads / kLanes threads a column, a part of the chunks each.
struct AddChunks {
  std::int64_t chunks, width;
  const float* partial;
  float* sums;

  static constexpr int kParts = kThreads / kLanes;
  GridShape grid() const {
    return {.blocks = divide_up(width, kLanes), .shared_bytes = shared_bytes<float>(kThreads)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    float* parts = block.template shared<float>(block.threads());
    const auto column_of = [&](int thread) { return block.index() * kLanes + thread % kLanes; };
    block.each_thread([&](int thread) {
      const std::int64_t column = column_of(thread);
      float sum = 0.0F;
      if (column < width) {
        for (std::int64_t chunk = thread / kLanes; chunk < chunks; chunk += kParts)
          sum += partial[chunk * width + column];
      }
      parts[thread] = sum;
    });
    block.each_thread([&](int thread) {
      if (thread >= kLanes || column_of(thread) >= width) return;
      float sum = 0.0F;
      for (int part = 0; part < kParts; ++part) sum += parts[part * kLanes + thread];
      sums[column_of(thread)] += sum;
    });
  }
};

/// Of each of a term's sums: sums[column] += Σ over rows. `whole`: packs_are_whole() of what the term
/// reads.
template <class Grid, class Term>
void sum_columns(Grid& grid, RowShape shape, const Term& term, bool whole,
                 const std::span<float> (&sums)[Term::kSums]) {
  const std::int64_t chunks = divide_up(shape.rows, kRowsOfChunk);
  float* partial = grid.template workspace<float>(column_sums_workspace(shape, Term::kSums));
  run_each_element(grid, chunks * divide_up(shape.width, kPack),
                   ChunkSums<Term>{shape, whole && shape.width % kPack == 0, term, partial});
  for (std::int64_t i = 0; i < Term::kSums; ++i) {
    TANDEM_CHECK(std::ssize(sums[i]) == shape.width, sums[i].size(), shape.width);
    const AddChunks add{chunks, shape.width, partial + i * chunks * shape.width, sums[i].data()};
    grid.run(add.grid(), add);
  }
}

template <class A>
struct MatrixTerm {
  static constexpr int kSums = 1;
  const A* x;
  TANDEM_DEVICE void add(std::int64_t /*row*/, const PackPlace& place, Pack (&sums)[kSums]) const {
    const Pack from = place.load(x);
    for (int i = 0; i < kPack; ++i) sums[0][i] += from[i];
  }
};

/// db += Σ rows of dy.
template <class Grid, class A>
void accumulate_rows(Grid& grid, RowShape shape, std::span<const A> dy, std::span<float> db) {
  TANDEM_CHECK(std::ssize(dy) == shape.rows * shape.width, dy.size(), shape.rows, shape.width);
  sum_columns(grid, shape, MatrixTerm<A>{dy.data()}, packs_are_whole(dy.data()), {db});
}

}  // namespace tandem::cuda
