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

inline constexpr std::int64_t kRowsOfChunk = 64;

/// Elements of partial sums that sum_columns() asks of the grid's workspace, for `sums` of them.
constexpr std::int64_t column_sums_workspace(RowShape shape, std::int64_t sums) {
  return sums * divide_up(shape.rows, kRowsOfChunk) * shape.width;
}

/// partial[sum][chunk][column] = Σ of the term over the rows of the chunk. A block takes a chunk of
/// kLanes packs of columns; threads of a pack take turns with the rows, and are added in order.
template <class Term>
struct ChunkSums {
  static constexpr int kSums = Term::kSums, kPack = Term::kPack, kTurns = kThreads / kLanes;
  RowShape shape;
  bool whole;
  Term term;
  float* partial;

  constexpr std::int64_t groups() const { return divide_up(divide_up(shape.width, kPack), kLanes); }
  constexpr std::int64_t chunks() const { return divide_up(shape.rows, kRowsOfChunk); }
  GridShape grid() const {
    return {.blocks = chunks() * groups(),
            .shared_bytes = shared_bytes<float>(kSums * kPack * kThreads)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    // [sum][number of the pack][thread]
    float* of_threads = block.template shared<float>(kSums * kPack * block.threads());
    const std::int64_t chunk = block.index() / groups(), group = block.index() % groups();
    const std::int64_t end = (chunk + 1) * kRowsOfChunk;
    const std::int64_t last = end < shape.rows ? end : shape.rows;
    block.each_thread([&](int thread) {
      const std::int64_t column = (group * kLanes + thread % kLanes) * kPack;
      Pack<kPack> sums[kSums] = {};
      if (column < shape.width) {
        for (std::int64_t row = chunk * kRowsOfChunk + thread / kLanes; row < last; row += kTurns)
          term.add(row, {row * shape.width + column, shape.width - column, whole}, sums);
      }
      for (int i = 0; i < kSums * kPack; ++i)
        of_threads[i * block.threads() + thread] = sums[i / kPack][i % kPack];
    });
    // A column each.
    each_of(block, 0, kSums * kPack * kLanes, [&](std::int64_t i) {
      const std::int64_t sum = i / (kPack * kLanes), in_group = i % (kPack * kLanes);
      const std::int64_t column = group * kLanes * kPack + in_group;
      if (column >= shape.width) return;
      const float* const first =
          of_threads + (sum * kPack + in_group % kPack) * block.threads() + in_group / kPack;
      float total = 0.0F;
      for (int turn = 0; turn < kTurns; ++turn) total += first[turn * kLanes];
      partial[(sum * chunks() + chunk) * shape.width + column] = total;
    });
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

/// Of each of a term's sums: sums[column] += Σ over rows. `whole`: rows_are_whole() of what the
/// term reads.
template <class Grid, class Term>
void sum_columns(Grid& grid, RowShape shape, const Term& term, bool whole,
                 const std::span<float> (&sums)[Term::kSums]) {
  float* partial = grid.template workspace<float>(column_sums_workspace(shape, Term::kSums));
  const ChunkSums<Term> of_chunks{shape, whole, term, partial};
  const std::int64_t chunks = of_chunks.chunks();
  grid.run(of_chunks.grid(), of_chunks);
  for (std::int64_t i = 0; i < Term::kSums; ++i) {
    TANDEM_CHECK(std::ssize(sums[i]) == shape.width, sums[i].size(), shape.width);
    const AddChunks add{chunks, shape.width, partial + i * chunks * shape.width, sums[i].data()};
    grid.run(add.grid(), add);
  }
}

template <class A>
struct MatrixTerm {
  static constexpr int kSums = 1, kPack = kPackOf<A>;
  const A* x;
  TANDEM_DEVICE void add(std::int64_t /*row*/, const PackPlace<kPack>& place,
                         Pack<kPack> (&sums)[kSums]) const {
    const Pack<kPack> from = place.load(x);
    for (int i = 0; i < kPack; ++i) sums[0][i] += from[i];
  }
};

/// db += Σ rows of dy.
template <class Grid, class A>
void accumulate_rows(Grid& grid, RowShape shape, std::span<const A> dy, std::span<float> db) {
  TANDEM_CHECK(std::ssize(dy) == shape.rows * shape.width, dy.size(), shape.rows, shape.width);
  sum_columns(grid, shape, MatrixTerm<A>{dy.data()}, rows_are_whole(shape.width, dy.data()), {db});
}

}  // namespace tandem::cuda
