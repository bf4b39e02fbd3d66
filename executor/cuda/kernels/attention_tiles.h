#pragma once
// Tiles of 64 tokens by 64 channels in shared memory, and products of them in registers: a thread
// makes four rows by four columns, so that a number read from shared memory is used four times.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

inline constexpr int kTileTokens = 64;
inline constexpr int kTileChannels = 64;
/// Floats from row to row: eight threads that read packs of eight rows meet in no bank.
inline constexpr int kTileRow = kTileChannels + 4;
inline constexpr std::int64_t kTileFloats = kTileTokens * kTileRow;
/// Rows, and columns, between those of a thread.
inline constexpr int kTileSide = 16;
inline constexpr int kTileSteps = kTileTokens / kTileSide;
static_assert(kTileSide * kTileSide == kThreads && kTileSteps == 4);

/// The rows of a tile that a thread makes are down, down + 16, …; the columns of a product of two
/// tiles are across, across + 16, …, and those of a tile of channels 4·across … 4·across + 3.
struct TileSpot {
  int down, across;
  TANDEM_DEVICE explicit TileSpot(int thread)
      : down(thread / kTileSide), across(thread % kTileSide) {}
};

/// Four numbers of a row of a tile in shared memory, from 4·`pack` on.
TANDEM_DEVICE inline Pack<4> tile_pack(const float* tile, int row, int pack) {
  return PackPlace<4>{std::int64_t{row} * kTileRow + 4 * pack, 4, true}.load(tile);
}

/// Channels of a head from `first` on that a tile takes, in memory that may be moved in packs.
struct TileColumns {
  std::int64_t first, channels;
  bool whole;

  constexpr int packs() const {
    return static_cast<int>(divide_up(std::min<std::int64_t>(channels - first, kTileChannels), 4));
  }
};

/// A thread's part of a tile. `row_of(row)`: where the channels of a token are, null beyond the
/// last; zeros there, and beyond the channels.
template <class RowOf>
TANDEM_DEVICE void load_tile(int thread, float* tile, const TileColumns& columns,
                             const RowOf& row_of) {
  const TileSpot spot(thread);
  const std::int64_t first = columns.first + 4 * spot.across;
  for (int i = 0; i < kTileSteps; ++i) {
    const int row = spot.down + i * kTileSide;
    const auto* const memory = row_of(row);
    const std::int64_t count = memory == nullptr ? 0 : columns.channels - first;
    const Pack<4> pack = PackPlace<4>{first, count, columns.whole}.load(memory);
    PackPlace<4>{std::int64_t{row} * kTileRow + 4 * spot.across, 4, true}.store(tile, pack);
  }
}

/// A thread's part of rows of one tile times rows of another.
struct TileProducts {
  float of[kTileSteps][kTileSteps];

  TANDEM_DEVICE void clear() {
    for (auto& row : of)
      for (float& product : row) product = 0.0F;
  }
  /// += Σ over the first 4·`packs` columns of a(row, ·)·b(column, ·).
  TANDEM_DEVICE void add(int thread, const float* a, const float* b, int packs) {
    const TileSpot spot(thread);
    for (int pack = 0; pack < packs; ++pack) {
      Pack<4> x[kTileSteps], y[kTileSteps];
      for (int i = 0; i < kTileSteps; ++i) {
        x[i] = tile_pack(a, spot.down + i * kTileSide, pack);
        y[i] = tile_pack(b, spot.across + i * kTileSide, pack);
      }
      for (int i = 0; i < kTileSteps; ++i)
        for (int j = 0; j < kTileSteps; ++j)
          for (int n = 0; n < 4; ++n) of[i][j] = std::fma(x[i][n], y[j][n], of[i][j]);
    }
  }
  /// Calls visit(row, column, product, i, j) for each: [i][j] is its place in this.
  template <class Visit>
  TANDEM_DEVICE void each(int thread, const Visit& visit) {
    const TileSpot spot(thread);
    for (int i = 0; i < kTileSteps; ++i)
      for (int j = 0; j < kTileSteps; ++j)
        visit(spot.down + i * kTileSide, spot.across + j * kTileSide, of[i][j], i, j);
  }
  TANDEM_DEVICE void keep(int thread, float* tile) {
    each(thread, [tile](int row, int column, float product, int /*i*/, int /*j*/) {
      tile[row * kTileRow + column] = product;
    });
  }
};

/// A thread's part of sums over tokens of weights times their channels.
struct TileSums {
  Pack<4> of[kTileSteps];

  TANDEM_DEVICE void clear() {
    for (Pack<4>& pack : of) pack = {};
  }
  /// += Σ over tokens of weights(row, token)·values(token, ·), of the first `packs` packs.
  TANDEM_DEVICE void add(int thread, const float* weights, const float* values, int packs) {
    const TileSpot spot(thread);
    if (spot.across >= packs) return;
    for (int token = 0; token < kTileTokens; token += 4) {
      Pack<4> w[kTileSteps];
      for (int i = 0; i < kTileSteps; ++i)
        w[i] = tile_pack(weights, spot.down + i * kTileSide, token / 4);
      for (int n = 0; n < 4; ++n) {
        const Pack<4> v = tile_pack(values, token + n, spot.across);
        for (int i = 0; i < kTileSteps; ++i)
          for (int c = 0; c < 4; ++c) of[i][c] = std::fma(w[i][n], v[c], of[i][c]);
      }
    }
  }
  TANDEM_DEVICE void scale(int i, float by) {
    for (int c = 0; c < 4; ++c) of[i][c] *= by;
  }
  /// Calls store(row, place, pack, i) for each of the thread's packs that has channels: of[i].
  template <class Store>
  TANDEM_DEVICE void each(int thread, const TileColumns& columns, const Store& store) const {
    const TileSpot spot(thread);
    const std::int64_t first = columns.first + 4 * spot.across;
    if (first >= columns.channels) return;
    for (int i = 0; i < kTileSteps; ++i)
      store(spot.down + i * kTileSide, PackPlace<4>{first, columns.channels - first, columns.whole},
            of[i], i);
  }
};

}  // namespace tandem::cuda
