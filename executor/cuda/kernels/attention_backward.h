#pragma once
// The gradients of causal attention, from scores that are made again in tiles: one kernel for those
// of queries, one for those of keys and values, so that no two blocks add to one place.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "executor/cuda/kernels/attention.h"

namespace tandem::cuda {

/// Elements of float that attention_backward() asks of the grid's workspace.
constexpr std::int64_t attention_backward_workspace(AttentionShape shape) {
  return shape.batch * shape.heads * shape.sequence;
}

/// along = Σ over channels of dy·y: what the softmax's normalisation takes off. A thread a query.
template <class A>
struct AlongOutput {
  AttentionShape shape;
  const A *y, *dy;
  float* along;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const HeadPlace place(shape, i);
    const std::int64_t start = place.in_y(place.token);
    float sum = 0.0F;
    for (std::int64_t c = start; c < start + place.channels; ++c)
      sum = std::fma(to_float(y[c]), to_float(dy[c]), sum);
    along[i] = sum;
  }
};

/// The softmax's weight of a pair of query and key, and the gradient of its score.
struct PairGradient {
  float weight, score;

  /// `alike`: query · key; `gradient`: dy of the query · value of the key.
  TANDEM_DEVICE PairGradient(float alike, float gradient, float scale, float log_sum, float along)
      : weight(std::exp(std::fma(alike, scale, -log_sum))),
        score(weight * (gradient - along) * scale) {}
};

/// What makes the pairs of the tokens that backward is of.
template <class A, int kParts>
struct AttentionPairs {
  AttentionTiles<A, kParts> tiles;
  AttentionBackward<A, float> spans;
  const float* along;

  /// Neither is seen: nothing.
  TANDEM_DEVICE PairGradient pair(const HeadPlace& place, std::int64_t query, std::int64_t key,
                                  float alike, float gradient) const {
    if (query >= tiles.shape.sequence || !tiles.sees(query, key))
      return PairGradient(0.0F, 0.0F, 0.0F, std::numeric_limits<float>::max(), 0.0F);
    const std::int64_t i = place.log_sums + query;
    return PairGradient(alike, gradient, tiles.scale, spans.log_sum.data()[i], along[i]);
  }
};

/// A block a tile of queries: their gradients are sums over keys.
template <class A, int kParts>
struct QueryGradients {
  AttentionPairs<A, kParts> pairs;

  GridShape grid() const {
    const AttentionShape& shape = pairs.tiles.shape;
    return {.blocks = shape.batch * shape.heads * pairs.tiles.parts() * pairs.tiles.query_tiles(),
            .shared_bytes = 4 * shared_bytes<float>(kTileFloats)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const AttentionTiles<A, kParts>& tiles = pairs.tiles;
    const AttentionShape& shape = tiles.shape;
    const BlockOfTiles at(block.index(), shape.batch * shape.heads, tiles.parts());
    const HeadPlace place(shape, at.head * shape.sequence);
    const A *const qkv = pairs.spans.qkv.data(), *const dy = pairs.spans.dy.data();
    const std::int64_t first = (tiles.query_tiles() - 1 - at.tile) * kTileTokens;
    const std::int64_t keys_seen = tiles.earlier.tokens + tiles.last_query(first);
    float* queries = block.template shared<float>(kTileFloats);
    float* gradients = block.template shared<float>(kTileFloats);
    float* keys = block.template shared<float>(kTileFloats);  // and values before them
    float* scores = block.template shared<float>(kTileFloats);
    const auto alike = block.template per_thread<TileProducts>(),
               gradient = block.template per_thread<TileProducts>();
    const auto sums = block.template per_thread<PartSums<kParts>>();
    block.each_thread([&](int thread) { sums[thread].clear(); });
    const bool stay = tiles.chunks() == 1;
    for (std::int64_t key = 0; key < keys_seen; key += kTileTokens) {
      tiles.multiply(
          block, gradient, gradients, keys,
          [&](int thread, std::int64_t chunk) {
            if (key == 0 || !stay) tiles.load_gradients(thread, gradients, chunk, dy, place, first);
            tiles.load_keys(thread, keys, chunk, qkv, place, key, 2);
          },
          [](int) {});
      const auto load_keys = [&](int thread, std::int64_t chunk) {
        tiles.load_keys(thread, keys, chunk, qkv, place, key, 1);
      };
      tiles.multiply(
          block, alike, queries, keys,
          [&](int thread, std::int64_t chunk) {
            if (key == 0 || !stay) tiles.load_queries(thread, queries, chunk, qkv, place, first);
            load_keys(thread, chunk);
          },
          [&](int thread) {
            alike[thread].each(thread, [&](int row, int column, float& product, int i, int j) {
              product =
                  pairs.pair(place, first + row, key + column, product, gradient[thread].of[i][j])
                      .score;
            });
            alike[thread].keep(thread, scores);
          });
      tiles.add_parts(
          block, at, stay, [&](int thread, auto, std::int64_t chunk) { load_keys(thread, chunk); },
          [&](int thread, auto part, int packs) {
            sums[thread].of[part].add(thread, scores, keys, packs);
          });
    }
    block.each_thread([&](int thread) {
      sums[thread].each(
          thread, tiles, at, [&](int row, const PackPlace<4>& channels, const Pack<4>& pack, int) {
            if (first + row < shape.sequence)
              channels.store(pairs.spans.dqkv.data() + place.in_qkv(first + row, 0), pack);
          });
    });
  }
};

/// A block a tile of keys of a head of keys: the gradients of keys and values are sums over the
/// queries that see them, of one head that shares them after the other. Those of keys before the
/// shape's tokens are added to the sums of all queries, where the others' begin.
template <class A, int kParts>
struct KeyGradients {
  AttentionPairs<A, kParts> pairs;
  std::int64_t whole_sequence;  // tokens of a sample in those sums; 0: there are none

  GridShape grid() const {
    const AttentionTiles<A, kParts>& tiles = pairs.tiles;
    return {.blocks = tiles.shape.batch * tiles.shape.key_heads() * tiles.parts() *
                      divide_up(tiles.keys(), kTileTokens),
            .shared_bytes = 5 * shared_bytes<float>(kTileFloats)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const AttentionTiles<A, kParts>& tiles = pairs.tiles;
    const AttentionShape& shape = tiles.shape;
    const BlockOfTiles at(block.index(), shape.batch * shape.key_heads(), tiles.parts());
    const std::int64_t group = shape.heads / shape.key_heads();
    const std::int64_t first = at.tile * kTileTokens;
    // The first queries that see the first key.
    const std::int64_t own = std::max<std::int64_t>(first - tiles.earlier.tokens, 0);
    const std::int64_t first_query = own / kTileTokens * kTileTokens;
    const Memory memory(block);
    const auto sums = block.template per_thread<Sums>();
    block.each_thread([&](int thread) {
      sums[thread].of_keys.clear();
      sums[thread].of_values.clear();
    });
    for (std::int64_t member = 0; member < group; ++member) {
      const HeadPlace place(shape, (at.head * group + member) * shape.sequence);
      for (std::int64_t query = first_query; query < shape.sequence; query += kTileTokens) {
        const bool load = member == 0 && query == first_query;
        add_tile(block, memory, sums, at, place, first, query, load || tiles.chunks() > 1);
      }
    }
    const HeadPlace place(shape, at.head * group * shape.sequence);
    block.each_thread([&](int thread) {
      sums[thread].of_keys.each(
          thread, tiles, at, [&](int row, const PackPlace<4>& channels, const Pack<4>& pack, int) {
            store(place, first + row, 1, channels, pack);
          });
      sums[thread].of_values.each(
          thread, tiles, at, [&](int row, const PackPlace<4>& channels, const Pack<4>& pack, int) {
            store(place, first + row, 2, channels, pack);
          });
    });
  }

 private:
  struct Memory {
    float *keys, *values, *queries, *gradients;
    float* pairs;  // weights, and then the gradients of scores

    template <class Block>
    TANDEM_DEVICE explicit Memory(Block& block)
        : keys(block.template shared<float>(kTileFloats)),
          values(block.template shared<float>(kTileFloats)),
          queries(block.template shared<float>(kTileFloats)),
          gradients(block.template shared<float>(kTileFloats)),
          pairs(block.template shared<float>(kTileFloats)) {}
  };
  struct Sums {
    PartSums<kParts> of_keys, of_values;
  };

  /// Adds what a tile of queries of a head gives. `load`: keys and values are not there yet.
  template <class Block, class AllSums>
  TANDEM_DEVICE void add_tile(Block& block, const Memory& memory, const AllSums& sums,
                              const BlockOfTiles& at, const HeadPlace& place, std::int64_t first,
                              std::int64_t query, bool load) const {
    const AttentionTiles<A, kParts>& tiles = pairs.tiles;
    const A *const qkv = pairs.spans.qkv.data(), *const dy = pairs.spans.dy.data();
    const auto alike = block.template per_thread<TileProducts>(),
               gradient = block.template per_thread<TileProducts>();
    const auto load_queries = [&](int thread, std::int64_t chunk) {
      tiles.load_queries(thread, memory.queries, chunk, qkv, place, query);
    };
    const auto load_gradients = [&](int thread, std::int64_t chunk) {
      tiles.load_gradients(thread, memory.gradients, chunk, dy, place, query);
    };
    tiles.multiply(
        block, alike, memory.keys, memory.queries,
        [&](int thread, std::int64_t chunk) {
          if (load) tiles.load_keys(thread, memory.keys, chunk, qkv, place, first, 1);
          load_queries(thread, chunk);
        },
        [](int) {});
    tiles.multiply(
        block, gradient, memory.values, memory.gradients,
        [&](int thread, std::int64_t chunk) {
          if (load) tiles.load_keys(thread, memory.values, chunk, qkv, place, first, 2);
          load_gradients(thread, chunk);
        },
        [&](int thread) {
          alike[thread].each(thread, [&](int row, int column, float& product, int i, int j) {
            const PairGradient pair =
                pairs.pair(place, query + column, first + row, product, gradient[thread].of[i][j]);
            gradient[thread].of[i][j] = pair.weight;
            product = pair.score;
          });
          gradient[thread].keep(thread, memory.pairs);
        });
    const bool are_there = tiles.chunks() == 1;
    tiles.add_parts(
        block, at, are_there,
        [&](int thread, auto, std::int64_t chunk) { load_gradients(thread, chunk); },
        [&](int thread, auto part, int packs) {
          sums[thread].of_values.of[part].add(thread, memory.pairs, memory.gradients, packs);
        });
    block.each_thread([&](int thread) { alike[thread].keep(thread, memory.pairs); });
    tiles.add_parts(
        block, at, are_there,
        [&](int thread, auto, std::int64_t chunk) { load_queries(thread, chunk); },
        [&](int thread, auto part, int packs) {
          sums[thread].of_keys.of[part].add(thread, memory.pairs, memory.queries, packs);
        });
  }

  /// Of keys or values by `part` 1, 2.
  TANDEM_DEVICE void store(const HeadPlace& place, std::int64_t key, std::int64_t part,
                           const PackPlace<4>& channels, Pack<4> pack) const {
    const std::int64_t own = key - pairs.tiles.earlier.tokens;
    if (key >= pairs.tiles.keys()) return;
    if (whole_sequence > 0) {
      float* const sums = pairs.spans.context_gradient.data() +
                          ((place.sample * whole_sequence + key) * 2 + part - 1) * place.key_width +
                          place.key_begin;
      const Pack<4> later = channels.load(sums);
      for (int i = 0; i < 4; ++i) pack[i] += later[i];
      if (own < 0) channels.store(sums, pack);
    }
    if (own >= 0) channels.store(pairs.spans.dqkv.data() + place.in_qkv(own, part), pack);
  }
};

}  // namespace tandem::cuda
