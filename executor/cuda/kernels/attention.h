#pragma once
// What the kernels of causal attention share (attention_forward.h, attention_backward.h): where
// heads and tokens are, and tiles of them. A head with more channels than two tiles is made in
// parts, each by a block that makes the scores for itself.

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/attention_tiles.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// One head of one sample in the dense tensors, and a token of it.
struct HeadPlace {
  std::int64_t channels, width, row;  // width: of queries; row: of qkv
  std::int64_t key_width;
  std::int64_t token;  // in its sample
  std::int64_t sample;
  std::int64_t first;  // of the sample's tokens
  std::int64_t head;
  std::int64_t key_begin;  // where its keys begin among the heads of keys
  std::int64_t log_sums;   // where those of the head begin

  /// `index`: of (batch, heads, sequence).
  TANDEM_DEVICE HeadPlace(const AttentionShape& shape, std::int64_t index)
      : channels(shape.head_width()),
        width(shape.width),
        row(shape.qkv_width()),
        key_width(shape.key_width()),
        token(index % shape.sequence),
        sample(index / shape.sequence / shape.heads),
        first(sample * shape.sequence),
        head(index / shape.sequence % shape.heads),
        key_begin(shape.key_head_of(head) * channels),
        log_sums(index - token) {}

  /// Where the head's part of token `i` begins in qkv: query, key or value by `part` 0, 1, 2.
  TANDEM_DEVICE std::int64_t in_qkv(std::int64_t i, std::int64_t part) const {
    return (first + i) * row + in_row(part);
  }
  TANDEM_DEVICE std::int64_t in_row(std::int64_t part) const {
    if (part == 0) return head * channels;
    return width + (part - 1) * key_width + key_begin;
  }
  /// In y and dy.
  TANDEM_DEVICE std::int64_t in_y(std::int64_t i) const {
    return (first + i) * width + head * channels;
  }
};

/// Slices of a sequence that kernels take.
inline constexpr std::int64_t kMostSlices = 64;

/// Queries, keys and values of the slices before, as a kernel is handed them: by value, so there
/// are only so many.
template <class A>
struct EarlierSlices {
  std::int64_t tokens = 0;  // of all of them, of each sample
  const A* qkv[kMostSlices] = {};
  std::int64_t end[kMostSlices] = {};  // tokens with it and before

  EarlierSlices() = default;
  EarlierSlices(const AttentionShape& shape, std::span<const std::span<const A>> slices)
      : tokens(context_of(shape, slices)) {
    TANDEM_CHECK(std::ssize(slices) < kMostSlices, slices.size());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      qkv[i] = slices[i].data();
      end[i] = context_of(shape, slices.first(i + 1));
    }
  }

  /// Where the head's part of the sample's token `i` begins, of those before and, in `own`, those
  /// of the shape: key or value by `part` 1, 2.
  TANDEM_DEVICE const A* at(const HeadPlace& place, const A* own, std::int64_t i,
                            std::int64_t part) const {
    if (i >= tokens) return own + place.in_qkv(i - tokens, part);
    int slice = 0;
    while (end[slice] <= i) ++slice;
    const std::int64_t begin = slice > 0 ? end[slice - 1] : 0;
    const std::int64_t row = place.sample * (end[slice] - begin) + i - begin;
    return qkv[slice] + row * place.row + place.in_row(part);
  }
};

/// Which tile of which head a block makes, and which part of its channels. Blocks of one tile stand
/// side by side, so that those with most work can begin first.
struct BlockOfTiles {
  std::int64_t head, part, tile;

  TANDEM_DEVICE BlockOfTiles(std::int64_t index, std::int64_t heads, std::int64_t parts)
      : head(index % heads), part(index / heads % parts), tile(index / heads / parts) {}
};

/// Calls work(part) for each part that a block makes. Parts are known to the compiler: what a
/// thread has of them stays in registers.
template <int kParts, class Work>
TANDEM_DEVICE void each_part(const Work& work) {
  const auto all = [&]<int... kPart>(std::integer_sequence<int, kPart...>) {
    (work(std::integral_constant<int, kPart>()), ...);
  };
  all(std::make_integer_sequence<int, kParts>());
}

/// What the kernels share: a head's channels in tiles, of which a block makes kParts, and where
/// tokens are.
template <class A, int kParts>
struct AttentionTiles {
  AttentionShape shape;
  EarlierSlices<A> earlier;
  bool whole;   // what is stored of a head can be moved in packs
  float scale;  // of scores

  constexpr std::int64_t keys() const { return earlier.tokens + shape.sequence; }
  constexpr std::int64_t query_tiles() const { return divide_up(shape.sequence, kTileTokens); }
  /// Tiles of a head's channels, over which products go.
  constexpr std::int64_t chunks() const { return divide_up(shape.head_width(), kTileChannels); }
  constexpr std::int64_t parts() const { return divide_up(chunks(), kParts); }
  constexpr TileColumns columns(std::int64_t chunk) const {
    return {chunk * kTileChannels, shape.head_width(), whole};
  }
  constexpr bool sees(std::int64_t query, std::int64_t key) const {
    return key <= earlier.tokens + query;
  }
  /// Of a tile of queries: those behind the last that is there.
  constexpr std::int64_t last_query(std::int64_t first) const {
    return std::min(first + kTileTokens, shape.sequence);
  }

  TANDEM_DEVICE void load_queries(int thread, float* tile, std::int64_t chunk, const A* qkv,
                                  const HeadPlace& place, std::int64_t first) const {
    load_tile(thread, tile, columns(chunk), [&](int row) {
      return first + row < shape.sequence ? qkv + place.in_qkv(first + row, 0) : nullptr;
    });
  }
  TANDEM_DEVICE void load_gradients(int thread, float* tile, std::int64_t chunk, const A* dy,
                                    const HeadPlace& place, std::int64_t first) const {
    load_tile(thread, tile, columns(chunk), [&](int row) {
      return first + row < shape.sequence ? dy + place.in_y(first + row) : nullptr;
    });
  }
  /// Keys or values by `part` 1, 2.
  TANDEM_DEVICE void load_keys(int thread, float* tile, std::int64_t chunk, const A* qkv,
                               const HeadPlace& place, std::int64_t first,
                               std::int64_t part) const {
    load_tile(thread, tile, columns(chunk), [&](int row) {
      return first + row < keys() ? earlier.at(place, qkv, first + row, part) : nullptr;
    });
  }

  /// Products over all channels of the rows of two tiles: load(thread, chunk) fills both, and
  /// then(thread) follows the thread's last.
  template <class Block, class Products, class Load, class Then>
  TANDEM_DEVICE void multiply(Block& block, const Products& products, const float* a,
                              const float* b, const Load& load, const Then& then) const {
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) {
      block.each_thread([&](int thread) { load(thread, chunk); });
      block.each_thread([&](int thread) {
        if (chunk == 0) products[thread].clear();
        products[thread].add(thread, a, b, columns(chunk).packs());
        if (chunk + 1 == chunks()) then(thread);
      });
    }
  }

  /// Adds weights times values to the block's sums, a part after the other: load(thread, part,
  /// chunk) fills the values, unless they are there, and add(thread, part, packs) adds.
  template <class Block, class Load, class Add>
  TANDEM_DEVICE void add_parts(Block& block, const BlockOfTiles& at, bool are_there,
                               const Load& load, const Add& add) const {
    each_part<kParts>([&](auto part) {
      const std::int64_t chunk = at.part * kParts + part;
      if (chunk >= chunks()) return;
      if (!are_there) block.each_thread([&](int thread) { load(thread, part, chunk); });
      block.each_thread([&](int thread) { add(thread, part, columns(chunk).packs()); });
    });
  }
};

/// Sums of all parts that a block makes.
template <int kParts>
struct PartSums {
  TileSums of[kParts];

  TANDEM_DEVICE void clear() {
    for (TileSums& part : of) part.clear();
  }
  /// Calls store(row, place, pack, i) for each of the thread's packs.
  template <class Tiles, class Store>
  TANDEM_DEVICE void each(int thread, const Tiles& tiles, const BlockOfTiles& at,
                          const Store& store) const {
    each_part<kParts>(
        [&](auto part) { of[part].each(thread, tiles.columns(at.part * kParts + part), store); });
  }
};

}  // namespace tandem::cuda
