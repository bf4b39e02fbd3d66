#pragma once
// Causal attention in tiles of 64 queries by 64 keys, whose scores are in shared memory alone: the
// softmax goes along (Milakov and Gimelshein, arXiv 1805.02867; in tiles: Dao et al., arXiv
// 2205.14135). Keys may be those of earlier slices of the sequence, too.

#include <cmath>
#include <cstdint>
#include <limits>

#include "executor/cuda/kernels/attention.h"

namespace tandem::cuda {

/// The softmax of each query of a tile, key tile by key tile, as far as threads share it.
struct OnlineSoftmax {
  float *peaks, *peak_parts, *sum_parts;

  /// Threads that weigh the scores of a query.
  static constexpr int kWeighers = kThreads / kTileTokens;
  static constexpr std::int64_t kPeaks = 2 * kTileTokens, kPeakParts = kTileTokens * kTileSide;

  static constexpr std::int64_t bytes() {
    return shared_bytes<float>(kPeaks) + shared_bytes<float>(kPeakParts) +
           shared_bytes<float>(kThreads);
  }
  template <class Block>
  TANDEM_DEVICE explicit OnlineSoftmax(Block& block)
      : peaks(block.template shared<float>(kPeaks)),
        peak_parts(block.template shared<float>(kPeakParts)),
        sum_parts(block.template shared<float>(kThreads)) {}

  /// The largest score of each query before the tile; `tile` + 1: and in it.
  TANDEM_DEVICE float* peaks_before(std::int64_t tile) const {
    return peaks + tile % 2 * kTileTokens;
  }
  /// Keeps the largest of the scores that a thread has made of each query.
  TANDEM_DEVICE void keep_peaks(int thread, const TileProducts& scores) const {
    const TileSpot spot(thread);
    for (int i = 0; i < kTileSteps; ++i) {
      float peak = scores.of[i][0];
      for (int j = 1; j < kTileSteps; ++j) peak = std::fmax(peak, scores.of[i][j]);
      peak_parts[(spot.down + i * kTileSide) * kTileSide + spot.across] = peak;
    }
  }
  /// Scores become weights by the largest so far.
  TANDEM_DEVICE void weigh(int thread, float* scores, std::int64_t tile) const {
    const int row = thread / kWeighers, nth = thread % kWeighers;
    float peak = peaks_before(tile)[row];
    for (int i = 0; i < kTileSide; ++i) peak = std::fmax(peak, peak_parts[row * kTileSide + i]);
    if (nth == 0) peaks_before(tile + 1)[row] = peak;
    float sum = 0.0F;
    for (int pack = nth; pack < kTileTokens / 4; pack += kWeighers) {
      const PackPlace<4> at{std::int64_t{row} * kTileRow + 4 * pack, 4, true};
      Pack<4> weights = at.load(scores);
      for (int i = 0; i < 4; ++i) sum += weights[i] = std::exp(weights[i] - peak);
      at.store(scores, weights);
    }
    sum_parts[thread] = sum;
  }
  /// Σ weights of a query in the tile that was weighed last.
  TANDEM_DEVICE float sum(int row) const {
    float sum = 0.0F;
    for (int n = 0; n < kWeighers; ++n) sum += sum_parts[row * kWeighers + n];
    return sum;
  }
};

/// A block a tile of queries.
template <class A, int kParts>
struct AttendQueries {
  AttentionTiles<A, kParts> tiles;
  AttentionForward<A, float> spans;

  GridShape grid() const {
    const AttentionShape& shape = tiles.shape;
    return {.blocks = shape.batch * shape.heads * tiles.parts() * tiles.query_tiles(),
            .shared_bytes = 3 * shared_bytes<float>(kTileFloats) + OnlineSoftmax::bytes()};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const AttentionShape& shape = tiles.shape;
    const BlockOfTiles at(block.index(), shape.batch * shape.heads, tiles.parts());
    const HeadPlace place(shape, at.head * shape.sequence);
    const A* const qkv = spans.qkv.data();
    // The last queries see most keys.
    const std::int64_t first = (tiles.query_tiles() - 1 - at.tile) * kTileTokens;
    const std::int64_t key_tiles =
        divide_up(tiles.earlier.tokens + tiles.last_query(first), kTileTokens);
    float* queries = block.template shared<float>(kTileFloats);
    float* keys = block.template shared<float>(kTileFloats);  // and then values
    float* scores = block.template shared<float>(kTileFloats);
    const OnlineSoftmax softmax(block);
    const auto products = block.template per_thread<TileProducts>();
    const auto made = block.template per_thread<Made>();
    block.each_thread([&](int thread) {
      made[thread].clear();
      if (thread < kTileTokens)
        softmax.peaks_before(0)[thread] = std::numeric_limits<float>::lowest();
    });
    for (std::int64_t tile = 0; tile < key_tiles; ++tile) {
      const std::int64_t first_key = tile * kTileTokens;
      tiles.multiply(
          block, products, queries, keys,
          [&](int thread, std::int64_t chunk) {
            if (tile == 0 || tiles.chunks() > 1)
              tiles.load_queries(thread, queries, chunk, qkv, place, first);
            tiles.load_keys(thread, keys, chunk, qkv, place, first_key, 1);
          },
          [&](int thread) {
            products[thread].each(thread, [&](int row, int column, float& score, int, int) {
              score = tiles.sees(first + row, first_key + column)
                          ? score * tiles.scale
                          : std::numeric_limits<float>::lowest();
            });
            products[thread].keep(thread, scores);
            softmax.keep_peaks(thread, products[thread]);
          });
      tiles.add_parts(
          block, at, false,
          [&](int thread, auto part, std::int64_t chunk) {
            if (part == 0) softmax.weigh(thread, scores, tile);
            tiles.load_keys(thread, keys, chunk, qkv, place, first_key, 2);
          },
          [&](int thread, auto part, int packs) {
            if (part == 0) made[thread].rescale(thread, softmax, tile);
            made[thread].sums.of[part].add(thread, scores, keys, packs);
          });
    }
    const float* const peaks = softmax.peaks_before(key_tiles);
    block.each_thread([&](int thread) { store(thread, made[thread], at, place, first, peaks); });
  }

 private:
  /// What a thread has made of its queries.
  struct Made {
    PartSums<kParts> sums;
    float weight[kTileSteps];  // of all keys of each query

    TANDEM_DEVICE void clear() {
      sums.clear();
      for (float& query : weight) query = 0.0F;
    }
    /// What was weighed by the peaks before is as if it had been by those of the tile.
    TANDEM_DEVICE void rescale(int thread, const OnlineSoftmax& softmax, std::int64_t tile) {
      for (int i = 0; i < kTileSteps; ++i) {
        const int row = TileSpot(thread).down + i * kTileSide;
        const float by =
            std::exp(softmax.peaks_before(tile)[row] - softmax.peaks_before(tile + 1)[row]);
        weight[i] = std::fma(weight[i], by, softmax.sum(row));
        for (TileSums& part : sums.of) part.scale(i, by);
      }
    }
  };

  TANDEM_DEVICE void store(int thread, const Made& made, const BlockOfTiles& at,
                           const HeadPlace& place, std::int64_t first, const float* peaks) const {
    made.sums.each(thread, tiles, at,
                   [&](int row, const PackPlace<4>& channels, const Pack<4>& sums, int i) {
                     if (first + row >= tiles.shape.sequence) return;
                     Pack<4> y;
                     for (int c = 0; c < 4; ++c) y[c] = sums[c] / made.weight[i];
                     channels.store(spans.y.data() + place.in_y(first + row), y);
                   });
    const TileSpot spot(thread);
    if (spot.across > 0 || at.part > 0) return;
    for (int i = 0; i < kTileSteps; ++i) {
      const int row = spot.down + i * kTileSide;
      if (first + row < tiles.shape.sequence)
        spans.log_sum.data()[place.log_sums + first + row] = peaks[row] + std::log(made.weight[i]);
    }
  }
};

}  // namespace tandem::cuda
