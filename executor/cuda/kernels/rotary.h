#pragma once
// What is done to queries and keys, head by head, before they meet: norms of their channels, and
// turns by their positions.

#include <cmath>
#include <cstdint>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// One head of queries or keys of a token, of which `index` counts all.
struct HeadRow {
  std::int64_t width, head, in_qkv, dense;  // dense: in rows of queries and keys alone

  TANDEM_DEVICE HeadRow(const AttentionShape& shape, std::int64_t index)
      : width(shape.head_width()),
        head(index % (shape.heads + shape.key_heads())),
        in_qkv(index / (shape.heads + shape.key_heads()) * shape.qkv_width() + head * width),
        dense(index * width) {}
};

/// A thread a head: they are short.
template <class A>
struct HeadNorm {
  AttentionShape shape;
  HeadNormForward<A, float> spans;
  TANDEM_DEVICE void operator()(std::int64_t index) const {
    const HeadRow row(shape, index);
    A* const x = spans.qkv.data() + row.in_qkv;
    A* const before = spans.before.data() + row.dense;
    const A* const gain = row.head < shape.heads ? spans.query_gain.data() : spans.key_gain.data();
    float square = 0.0F;
    for (std::int64_t c = 0; c < row.width; ++c)
      square = std::fma(to_float(x[c]), to_float(x[c]), square);
    const float inverse = 1.0F / std::sqrt(square / static_cast<float>(row.width) +
                                           static_cast<float>(spans.epsilon));
    for (std::int64_t c = 0; c < row.width; ++c) {
      before[c] = x[c];
      x[c] = narrow<A>(to_float(x[c]) * inverse * to_float(gain[c]));
    }
    spans.inverse_deviation.data()[index] = inverse;
  }
};

template <class A>
struct HeadNormGradient {
  AttentionShape shape;
  HeadNormBackward<A, float> spans;
  TANDEM_DEVICE void operator()(std::int64_t index) const {
    const HeadRow row(shape, index);
    A* const dx = spans.dqkv.data() + row.in_qkv;
    A* const dy = spans.dy.data() + row.dense;
    const A* const x = spans.before.data() + row.dense;
    const A* const gain = row.head < shape.heads ? spans.query_gain.data() : spans.key_gain.data();
    const float inverse = spans.inverse_deviation.data()[index];
    float along = 0.0F;
    for (std::int64_t c = 0; c < row.width; ++c) {
      dy[c] = dx[c];
      along = std::fma(to_float(dy[c]) * to_float(gain[c]), to_float(x[c]) * inverse, along);
    }
    along /= static_cast<float>(row.width);
    for (std::int64_t c = 0; c < row.width; ++c) {
      const float scaled = to_float(dy[c]) * to_float(gain[c]);
      dx[c] = narrow<A>(inverse * std::fma(-to_float(x[c]) * inverse, along, scaled));
    }
  }
};

/// A block a channel, of queries' and of keys' gain: threads sum up parts of the rows, which are
/// then added in order.
template <class A>
struct HeadGainGradient {
  AttentionShape shape;
  HeadNormBackwardWeight<A, float> spans;

  GridShape grid() const {
    return {.blocks = 2 * shape.head_width(), .shared_bytes = shared_bytes<float>(kThreads)};
  }
  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t width = shape.head_width(), channel = block.index() % width;
    const bool of_keys = block.index() >= width;
    const std::int64_t heads = of_keys ? shape.key_heads() : shape.heads;
    const std::int64_t all = shape.heads + shape.key_heads(), first = of_keys ? shape.heads : 0;
    float* const sums = block.template shared<float>(block.threads());
    block.each_thread([&](int thread) {
      sums[thread] = 0.0F;
      for (std::int64_t i = thread; i < shape.rows() * heads; i += block.threads()) {
        const std::int64_t head = i / heads * all + first + i % heads;
        const std::int64_t at = head * width + channel;
        sums[thread] += to_float(spans.dy.data()[at]) * to_float(spans.before.data()[at]) *
                        spans.inverse_deviation.data()[head];
      }
    });
    block.each_thread([&](int thread) {
      if (thread > 0) return;
      float* const gain = (of_keys ? spans.dkey_gain.data() : spans.dquery_gain.data()) + channel;
      for (int i = 0; i < block.threads(); ++i) *gain += sums[i];
    });
  }
};

/// A block a token of all samples: a thread finds the turn of a pair once for all heads.
template <class A>
struct RotateToken {
  AttentionShape shape;
  Rotation rotation;
  A* qkv;

  GridShape grid() const { return {.blocks = shape.sequence}; }
  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t pairs = shape.head_width() / 2, heads = shape.heads + shape.key_heads();
    each_of(block, 0, shape.batch * pairs, [&](std::int64_t i) {
      const std::int64_t pair = i % pairs, sample = i / pairs;
      const Turn turn = turn_at(rotation.first + block.index(),
                                rotation.frequencies[static_cast<std::size_t>(pair)]);
      const auto cosine = static_cast<float>(turn.cosine);
      const float sine = static_cast<float>(rotation.back ? -turn.sine : turn.sine);
      A* at = qkv + (sample * shape.sequence + block.index()) * shape.qkv_width() + pair;
      for (std::int64_t head = 0; head < heads; ++head, at += 2 * pairs) {
        const float x = to_float(at[0]), y = to_float(at[pairs]);
        at[0] = narrow<A>(std::fma(x, cosine, -(y * sine)));
        at[pairs] = narrow<A>(std::fma(y, cosine, x * sine));
      }
    });
  }
};

}  // namespace tandem::cuda
