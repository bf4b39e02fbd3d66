#pragma once
// Causal attention, plainly: a block makes one row of scores, keeps it in shared memory, and sums
// over it in ascending order. Backward makes the scores again: one kernel for the gradients of
// queries, one for those of keys and values, so that no two blocks add to one place. Reads each key
// once a query; blocks of queries in fast memory would read it less often. Keys may be those of
// earlier slices of the sequence, too.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// Elements of float that attention_backward() asks of the grid's workspace.
constexpr std::int64_t attention_backward_workspace(AttentionShape shape) {
  return shape.batch * shape.heads * shape.sequence;
}

/// One head of one sample in the dense tensors, and a token of it: that of a block, or of a thread
/// where there is one for each of (batch, heads, tokens). Tokens are those of the shape, or with
/// them those before.
struct HeadPlace {
  std::int64_t channels, width, row;  // width: of queries; row: of qkv
  std::int64_t key_width;
  std::int64_t token;  // in its sample
  std::int64_t sample;
  std::int64_t first;  // of the sample's tokens
  std::int64_t head;
  std::int64_t group;     // heads of queries that share one of keys and values
  std::int64_t log_sums;  // where those of the head begin

  TANDEM_DEVICE HeadPlace(const AttentionShape& shape, std::int64_t index)
      : HeadPlace(shape, index, shape.sequence) {}
  TANDEM_DEVICE HeadPlace(const AttentionShape& shape, std::int64_t index, std::int64_t tokens)
      : channels(shape.width / shape.heads),
        width(shape.width),
        row(shape.qkv_width()),
        key_width(shape.key_width()),
        token(index % tokens),
        sample(index / tokens / shape.heads),
        first(sample * shape.sequence),
        head(index / tokens % shape.heads),
        group(shape.heads / shape.key_heads()),
        log_sums(index / tokens * shape.sequence) {}

  TANDEM_DEVICE float scale() const { return 1.0F / std::sqrt(static_cast<float>(channels)); }
  /// Where the head's part of token `i` begins in qkv: query, key or value by `part` 0, 1, 2.
  TANDEM_DEVICE std::int64_t in_qkv(std::int64_t i, std::int64_t part) const {
    return (first + i) * row + in_row(part);
  }
  TANDEM_DEVICE std::int64_t in_row(std::int64_t part) const {
    if (part == 0) return head * channels;
    return width + (part - 1) * key_width + head / group * channels;
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

template <class A>
TANDEM_DEVICE float dot(const float* a, const A* b, std::int64_t count) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) sum = std::fma(a[i], to_float(b[i]), sum);
  return sum;
}

/// A block a query.
template <class A>
struct AttendQuery {
  AttentionShape shape;
  AttentionForward<A, float> spans;
  EarlierSlices<A> earlier;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace place(shape, block.index());
    const A* qkv = spans.qkv.data();
    const std::int64_t channels = place.channels, keys = earlier.tokens + place.token + 1;
    float* scratch = block.template shared<float>(block.threads());
    float* query = block.template shared<float>(channels);
    float* weights = block.template shared<float>(earlier.tokens + shape.sequence);
    each_of(block, 0, channels,
            [&](std::int64_t c) { query[c] = to_float(qkv[place.in_qkv(place.token, 0) + c]); });
    each_of(block, 0, keys, [&](std::int64_t j) {
      weights[j] = dot(query, earlier.at(place, qkv, j, 1), channels) * place.scale();
    });
    const auto weight = [&](std::int64_t j) { return weights[j]; };
    const float least = std::numeric_limits<float>::lowest();
    const float peak = largest_of_all(block, scratch, keys, least, weight);
    each_of(block, 0, keys, [&](std::int64_t j) { weights[j] = std::exp(weights[j] - peak); });
    const float sum = sum_all(block, scratch, keys, weight);
    block.each_thread([&](int thread) {
      for (std::int64_t c = thread; c < channels; c += block.threads()) {
        float y = 0.0F;
        for (std::int64_t j = 0; j < keys; ++j)
          y = std::fma(weights[j], to_float(earlier.at(place, qkv, j, 2)[c]), y);
        spans.y.data()[place.in_y(place.token) + c] = narrow<A>(y / sum);
      }
      if (thread == 0) spans.log_sum.data()[block.index()] = peak + std::log(sum);
    });
  }
};

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

/// A block a query: its gradient is a sum over keys.
template <class A>
struct QueryGradient {
  AttentionShape shape;
  AttentionBackward<A, float> spans;
  EarlierSlices<A> earlier;
  const float* along;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace place(shape, block.index());
    const A* qkv = spans.qkv.data();
    const std::int64_t channels = place.channels, keys = earlier.tokens + place.token + 1;
    float* query = block.template shared<float>(channels);
    float* gradient = block.template shared<float>(channels);
    float* scores = block.template shared<float>(earlier.tokens + shape.sequence);
    each_of(block, 0, channels, [&](std::int64_t c) {
      query[c] = to_float(qkv[place.in_qkv(place.token, 0) + c]);
      gradient[c] = to_float(spans.dy.data()[place.in_y(place.token) + c]);
    });
    each_of(block, 0, keys, [&](std::int64_t j) {
      const PairGradient pair(dot(query, earlier.at(place, qkv, j, 1), channels),
                              dot(gradient, earlier.at(place, qkv, j, 2), channels), place.scale(),
                              spans.log_sum.data()[block.index()], along[block.index()]);
      scores[j] = pair.score;
    });
    each_of(block, 0, channels, [&](std::int64_t c) {
      float sum = 0.0F;
      for (std::int64_t j = 0; j < keys; ++j)
        sum = std::fma(scores[j], to_float(earlier.at(place, qkv, j, 1)[c]), sum);
      spans.dqkv.data()[place.in_qkv(place.token, 0) + c] = narrow<A>(sum);
    });
  }
};

/// A block a key of a head of keys, whose gradient and its value's are sums over the queries that
/// see it, of one head that shares it after the other. Those of keys before the shape's tokens stay
/// in the sums of all queries, where the others' begin.
template <class A>
struct KeyGradient {
  AttentionShape shape;
  AttentionBackward<A, float> spans;
  EarlierSlices<A> earlier;
  std::int64_t whole;  // tokens of a sample in those sums; 0: there are none
  const float* along;

  GridShape grid() const {
    return {.blocks = shape.batch * shape.key_heads() * (earlier.tokens + shape.sequence),
            .shared_bytes = 4 * shared_bytes<float>(shape.head_width()) +
                            2 * shared_bytes<float>(shape.sequence)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace first = place_of(block.index(), 0);
    const A *qkv = spans.qkv.data(), *dy = spans.dy.data();
    const std::int64_t channels = first.channels, own = first.token - earlier.tokens;
    const std::int64_t first_query = own > 0 ? own : 0;
    float* key = block.template shared<float>(channels);
    float* value = block.template shared<float>(channels);
    float* of_key = block.template shared<float>(channels);
    float* of_value = block.template shared<float>(channels);
    float* weights = block.template shared<float>(shape.sequence);
    float* scores = block.template shared<float>(shape.sequence);
    float* const sums = whole > 0 ? spans.context_gradient.data() +
                                        (first.sample * whole + first.token) * 2 * first.key_width +
                                        first.head / first.group * channels
                                  : nullptr;
    each_of(block, 0, channels, [&](std::int64_t c) {
      key[c] = to_float(earlier.at(first, qkv, first.token, 1)[c]);
      value[c] = to_float(earlier.at(first, qkv, first.token, 2)[c]);
      of_key[c] = whole > 0 ? sums[c] : 0.0F;
      of_value[c] = whole > 0 ? sums[first.key_width + c] : 0.0F;
    });
    for (std::int64_t member = 0; member < first.group; ++member) {
      const HeadPlace place = place_of(block.index(), member);
      each_of(block, first_query, shape.sequence, [&](std::int64_t i) {
        const PairGradient pair(
            dot(key, qkv + place.in_qkv(i, 0), channels), dot(value, dy + place.in_y(i), channels),
            place.scale(), spans.log_sum.data()[place.log_sums + i], along[place.log_sums + i]);
        weights[i] = pair.weight;
        scores[i] = pair.score;
      });
      each_of(block, 0, channels, [&](std::int64_t c) {
        for (std::int64_t i = first_query; i < shape.sequence; ++i) {
          of_key[c] = std::fma(scores[i], to_float(qkv[place.in_qkv(i, 0) + c]), of_key[c]);
          of_value[c] = std::fma(weights[i], to_float(dy[place.in_y(i) + c]), of_value[c]);
        }
      });
    }
    each_of(block, 0, channels, [&](std::int64_t c) {
      if (own < 0) {
        sums[c] = of_key[c];
        sums[first.key_width + c] = of_value[c];
      } else {
        spans.dqkv.data()[first.in_qkv(own, 1) + c] = narrow<A>(of_key[c]);
        spans.dqkv.data()[first.in_qkv(own, 2) + c] = narrow<A>(of_value[c]);
      }
    });
  }

 private:
  /// The key of a block, in the head of queries that is so manyth among those that share it.
  TANDEM_DEVICE HeadPlace place_of(std::int64_t index, std::int64_t member) const {
    const std::int64_t tokens = earlier.tokens + shape.sequence,
                       group = shape.heads / shape.key_heads();
    return HeadPlace(shape, (index / tokens * group + member) * tokens + index % tokens, tokens);
  }
};

}  // namespace tandem::cuda
