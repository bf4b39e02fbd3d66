#pragma once
// The blocked product behind the variants of gemm.h, for the files that compile them: everything is
// inlined into the variant, and so compiled for its instruction set and its file's rule of
// rounding.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "executor/cpu/gemm.h"
#include "executor/cpu/gemm_edge.h"

#define TANDEM_INLINE [[gnu::always_inline]] inline

namespace tandem::cpu::blocked {

/// How a variant cuts its work. A packed block of B (inner × columns) stays in the second-level
/// cache while all rows pass over it; a tile of rows × vectors sums is held in registers.
struct Blocking {
  int bytes = 16;  // of a vector
  int rows = 6, vectors = 2;
  std::int64_t inner = 128, columns = 256;

  constexpr std::int64_t lanes(std::size_t element) const {
    return bytes / static_cast<std::int64_t>(element);
  }
  constexpr std::int64_t tile_columns(std::size_t element) const {
    return vectors * lanes(element);
  }
};

/// Where one tile finds its numbers. a: rows `a_row` apart, inner steps `a_inner` apart; b: packed
/// [inner][columns of a tile].
template <class T>
struct Tile {
  std::int64_t inner = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0, a_inner = 0;
  const T* b = nullptr;
  T* c = nullptr;
  std::int64_t c_row = 0;
  bool adds = true;  // to what C holds; otherwise C starts from `bias`, or from zeros
  const T* bias = nullptr;
};

template <class T, Blocking kBy>
TANDEM_INLINE void run_tile(const Tile<T>& tile) {
  using Vector [[gnu::vector_size(kBy.bytes)]] = T;
  constexpr std::int64_t kLanes = kBy.lanes(sizeof(T));
  Vector sums[kBy.rows][kBy.vectors];
#pragma GCC unroll 16
  for (int row = 0; row < kBy.rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kBy.vectors; ++v) {
      if (tile.adds) {
        std::memcpy(&sums[row][v], tile.c + row * tile.c_row + v * kLanes, kBy.bytes);
      } else if (tile.bias != nullptr) {
        std::memcpy(&sums[row][v], tile.bias + v * kLanes, kBy.bytes);
      } else {
        sums[row][v] = Vector{};
      }
    }
  }
  const T* a = tile.a;
  const T* b = tile.b;
  for (std::int64_t k = 0; k < tile.inner; ++k, a += tile.a_inner, b += kBy.vectors * kLanes) {
    Vector right[kBy.vectors];
    std::memcpy(right, b, sizeof(right));
#pragma GCC unroll 16
    for (int row = 0; row < kBy.rows; ++row) {
      const T left = a[row * tile.a_row];
#pragma GCC unroll 4
      for (int v = 0; v < kBy.vectors; ++v) sums[row][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kBy.rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kBy.vectors; ++v)
      std::memcpy(tile.c + row * tile.c_row + v * kLanes, &sums[row][v], kBy.bytes);
  }
}

/// The same at an edge, through a full tile whose surplus is thrown away. A is read as packed:
/// surplus rows are there, and zero.
template <class T, Blocking kBy>
TANDEM_INLINE void run_edge(Tile<T> tile, std::int64_t rows, std::int64_t columns) {
  EdgeTile<T, kBy.rows, kBy.tile_columns(sizeof(T))> edge(tile, rows, columns);
  run_tile<T, kBy>(tile);
  edge.copy_back();
}

/// out[j·out_row + i] = in[i·in_row + j], for i and j below 4.
template <class T>
TANDEM_INLINE void transpose4(const T* in, std::int64_t in_row, T* out, std::int64_t out_row) {
  using Vector [[gnu::vector_size(4 * sizeof(T))]] = T;
  Vector a, b, c, d;
  std::memcpy(&a, in, sizeof a);
  std::memcpy(&b, in + in_row, sizeof b);
  std::memcpy(&c, in + 2 * in_row, sizeof c);
  std::memcpy(&d, in + 3 * in_row, sizeof d);
  const Vector ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  std::memcpy(out, &a, sizeof a);
  std::memcpy(out + out_row, &b, sizeof b);
  std::memcpy(out + 2 * out_row, &c, sizeof c);
  std::memcpy(out + 3 * out_row, &d, sizeof d);
}

/// Packs `count` lines of `length` so that kWidth lines interleave: out[panel][position][line].
/// Missing lines are zeros.
template <class T, std::int64_t kWidth>
TANDEM_INLINE void pack(const T* from, std::int64_t line_stride, std::int64_t position_stride,
                        std::int64_t count, std::int64_t length, T* out) {
  for (std::int64_t first = 0; first < count; first += kWidth, out += kWidth * length) {
    const std::int64_t width = std::min(kWidth, count - first);
    const T* panel = from + first * line_stride;
    if (width == kWidth && line_stride == 1) {
      for (std::int64_t position = 0; position < length; ++position) {
        std::memcpy(out + position * kWidth, panel + position * position_stride,
                    static_cast<std::size_t>(kWidth) * sizeof(T));
      }
      continue;
    }
    std::int64_t lines = 0;  // done by fours
    if (position_stride == 1) {
      for (; lines + 4 <= width; lines += 4) {
        for (std::int64_t position = 0; position + 4 <= length; position += 4) {
          transpose4(panel + lines * line_stride + position, line_stride,
                     out + position * kWidth + lines, kWidth);
        }
      }
    }
    const std::int64_t turned = lines > 0 ? length / 4 * 4 : 0;
    for (std::int64_t position = 0; position < length; ++position) {
      for (std::int64_t line = position < turned ? lines : 0; line < kWidth; ++line) {
        out[position * kWidth + line] =
            line < width ? panel[line * line_stride + position * position_stride] : T{};
      }
    }
  }
}

/// All tiles of a block of B that is packed in `right`, for `rows` ≤ kBy.rows rows of C. `tile` is
/// the first of them.
template <class T, Blocking kBy>
TANDEM_INLINE void run_row_panel(Tile<T> tile, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kColumns = kBy.tile_columns(sizeof(T));
  for (std::int64_t column = 0; column < columns; column += kColumns) {
    if (rows == kBy.rows && columns - column >= 2 * kColumns) {
      // The next tile's part of C arrives while this one computes.
      for (int row = 0; row < kBy.rows; ++row) {
        for (int v = 0; v < kBy.vectors; ++v)
          __builtin_prefetch(tile.c + row * tile.c_row + kColumns + v * kBy.lanes(sizeof(T)), 1);
      }
    }
    if (rows == kBy.rows && columns - column >= kColumns) {
      run_tile<T, kBy>(tile);
    } else {
      run_edge<T, kBy>(tile, rows, std::min(kColumns, columns - column));
    }
    tile.b += kColumns * tile.inner;
    tile.c += kColumns;
    if (tile.bias != nullptr) tile.bias += kColumns;
  }
}

template <class T, Blocking kBy>
TANDEM_INLINE void run_blocks(const Gemm<T>& g) {
  constexpr std::int64_t kColumns = kBy.tile_columns(sizeof(T));
  static_assert(kBy.columns % kColumns == 0);
  alignas(64) T right[kBy.inner * kBy.columns];
  alignas(64) T left[kBy.inner * kBy.rows];
  for (std::int64_t column = 0; column < g.columns; column += kBy.columns) {
    const std::int64_t columns = std::min(kBy.columns, g.columns - column);
    for (std::int64_t k = 0; k < g.inner; k += kBy.inner) {
      const std::int64_t inner = std::min(kBy.inner, g.inner - k);
      pack<T, kColumns>(g.b + k * g.b_inner + column * g.b_column, g.b_column, g.b_inner, columns,
                        inner, right);
      for (std::int64_t row = 0; row < g.rows; row += kBy.rows) {
        const std::int64_t rows = std::min<std::int64_t>(kBy.rows, g.rows - row);
        Tile<T> tile{.inner = inner,
                     .a = g.a + row * g.a_row + k * g.a_inner,
                     .a_row = g.a_row,
                     .a_inner = g.a_inner,
                     .b = right,
                     .c = g.c + row * g.c_row + column,
                     .c_row = g.c_row,
                     .adds = g.adds || k > 0,
                     .bias = g.bias == nullptr ? nullptr : g.bias + column};
        if (g.a_inner != 1 || rows < kBy.rows) {
          pack<T, kBy.rows>(tile.a, g.a_row, g.a_inner, rows, inner, left);
          tile.a = left;
          tile.a_row = 1;
          tile.a_inner = kBy.rows;
        }
        run_row_panel<T, kBy>(tile, rows, columns);
      }
    }
  }
}

/// A single row, as of a text's next token, where rows of B lie as they are multiplied: B is read
/// once, in order, and nothing is packed. Vectors throughout: the compiler may cut scalar products
/// from their sums, and round twice. REQUIRES: columns are a multiple of a vector's lanes.
template <class T, int kBytes>
TANDEM_INLINE void run_row(const Gemm<T>& g) {
  using Vector [[gnu::vector_size(kBytes)]] = T;
  constexpr std::int64_t kLanes = kBytes / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kColumns = 2048;  // of C, which stay in the first-level cache
  constexpr std::int64_t kSteps = 4;       // for each time that C is read and written
  for (std::int64_t first = 0; first < g.columns; first += kColumns) {
    const std::int64_t columns = std::min(kColumns, g.columns - first);
    T* c = g.c + first;
    if (!g.adds && g.bias != nullptr) std::copy_n(g.bias + first, columns, c);
    if (!g.adds && g.bias == nullptr) std::fill_n(c, columns, T{});
    for (std::int64_t k = 0; k < g.inner; k += kSteps) {
      const std::int64_t steps = std::min(kSteps, g.inner - k);
      const T* a = g.a + k * g.a_inner;
      const T* b = g.b + k * g.b_inner + first;
      for (std::int64_t column = 0; column < columns; column += kLanes) {
        Vector sum;
        std::memcpy(&sum, c + column, sizeof sum);
#pragma GCC unroll 4
        for (std::int64_t step = 0; step < steps; ++step) {
          Vector right;
          std::memcpy(&right, b + step * g.b_inner + column, sizeof right);
          sum += a[step * g.a_inner] * right;
        }
        std::memcpy(c + column, &sum, sizeof sum);
      }
    }
  }
}

/// A single row's columns that are not read as they lie go in tiles of one row, from packed blocks
/// that are small enough for the first-level cache.
template <class T, Blocking kBy>
TANDEM_INLINE void run(const Gemm<T>& g) {
  if (g.rows > 1) return run_blocks<T, kBy>(g);
  constexpr std::int64_t kLanes = kBy.lanes(sizeof(T));
  constexpr Blocking kOfRow{
      .bytes = kBy.bytes, .rows = 1, .vectors = 4, .inner = 64, .columns = 4 * kLanes};
  Gemm<T> rest = g;
  if (g.b_column == 1) {
    Gemm<T> whole = g;
    whole.columns = g.columns / kLanes * kLanes;
    run_row<T, kBy.bytes>(whole);
    rest.columns -= whole.columns;
    rest.b += whole.columns;
    rest.c += whole.columns;
    if (g.bias != nullptr) rest.bias += whole.columns;
  }
  run_blocks<T, kOfRow>(rest);
}

}  // namespace tandem::cpu::blocked
