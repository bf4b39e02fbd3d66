#pragma once
// Causal attention, plainly: a block makes one row of scores, keeps it in shared memory, and sums
// over it in ascending order. Backward makes the scores again: one kernel for the gradients of
// queries, one for those of keys and values, so that no two blocks add to one place. Reads each key
// once a query; blocks of queries in fast memory would read it less often.

#include <cmath>
#include <cstdint>
#include <limits>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// Elements of float that attention_backward() asks of the grid's workspace.
constexpr std::int64_t attention_backward_workspace(AttentionShape shape) {
  return shape.batch * shape.heads * shape.sequence;
}

/// One head of one sample in the dense tensors, and a token of it: that of a block, or of a thread
/// where there is one for each of (batch, heads, sequence).
struct HeadPlace {
  std::int64_t channels, sequence, width;
  std::int64_t token;     // in its sample
  std::int64_t first;     // of the sample's tokens
  std::int64_t channel;   // of the head, the first one
  std::int64_t log_sums;  // where those of the head begin

  TANDEM_DEVICE HeadPlace(const AttentionShape& shape, std::int64_t index)
      : channels(shape.width / shape.heads),
        sequence(shape.sequence),
        width(shape.width),
        token(index % shape.sequence),
        first(index / shape.sequence / shape.heads * shape.sequence),
        channel(index / shape.sequence % shape.heads * channels),
        log_sums(index - token) {}

  TANDEM_DEVICE float scale() const { return 1.0F / std::sqrt(static_cast<float>(channels)); }
  /// Where the head's part of token `i` begins in qkv: query, key or value by `part` 0, 1, 2.
  TANDEM_DEVICE std::int64_t in_qkv(std::int64_t i, std::int64_t part) const {
    return (first + i) * 3 * width + part * width + channel;
  }
  /// In y and dy.
  TANDEM_DEVICE std::int64_t in_y(std::int64_t i) const { return (first + i) * width + channel; }
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

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace place(shape, block.index());
    const A* qkv = spans.qkv.data();
    const std::int64_t channels = place.channels, keys = place.token + 1;
    float* scratch = block.template shared<float>(block.threads());
    float* query = block.template shared<float>(channels);
    float* weights = block.template shared<float>(shape.sequence);
    each_of(block, 0, channels,
            [&](std::int64_t c) { query[c] = to_float(qkv[place.in_qkv(place.token, 0) + c]); });
    each_of(block, 0, keys, [&](std::int64_t j) {
      weights[j] = dot(query, qkv + place.in_qkv(j, 1), channels) * place.scale();
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
          y = std::fma(weights[j], to_float(qkv[place.in_qkv(j, 2) + c]), y);
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
  const float* along;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace place(shape, block.index());
    const A* qkv = spans.qkv.data();
    const std::int64_t channels = place.channels, keys = place.token + 1;
    float* query = block.template shared<float>(channels);
    float* gradient = block.template shared<float>(channels);
    float* scores = block.template shared<float>(shape.sequence);
    each_of(block, 0, channels, [&](std::int64_t c) {
      query[c] = to_float(qkv[place.in_qkv(place.token, 0) + c]);
      gradient[c] = to_float(spans.dy.data()[place.in_y(place.token) + c]);
    });
    each_of(block, 0, keys, [&](std::int64_t j) {
      const PairGradient pair(dot(query, qkv + place.in_qkv(j, 1), channels),
                              dot(gradient, qkv + place.in_qkv(j, 2), channels), place.scale(),
                              spans.log_sum.data()[block.index()], along[block.index()]);
      scores[j] = pair.score;
    });
    each_of(block, 0, channels, [&](std::int64_t c) {
      float sum = 0.0F;
      for (std::int64_t j = 0; j < keys; ++j)
        sum = std::fma(scores[j], to_float(qkv[place.in_qkv(j, 1) + c]), sum);
      spans.dqkv.data()[place.in_qkv(place.token, 0) + c] = narrow<A>(sum);
    });
  }
};

/// A block a key, whose gradient and its value's are sums over the queries that see it.
template <class A>
struct KeyGradient {
  AttentionShape shape;
  AttentionBackward<A, float> spans;
  const float* along;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const HeadPlace place(shape, block.index());
    const A *qkv = spans.qkv.data(), *dy = spans.dy.data();
    const std::int64_t channels = place.channels;
    float* key = block.template shared<float>(channels);
    float* value = block.template shared<float>(channels);
    float* weights = block.template shared<float>(shape.sequence);
    float* scores = block.template shared<float>(shape.sequence);
    each_of(block, 0, channels, [&](std::int64_t c) {
      key[c] = to_float(qkv[place.in_qkv(place.token, 1) + c]);
      value[c] = to_float(qkv[place.in_qkv(place.token, 2) + c]);
    });
    each_of(block, place.token, shape.sequence, [&](std::int64_t i) {
      const PairGradient pair(dot(key, qkv + place.in_qkv(i, 0), channels),
                              dot(value, dy + place.in_y(i), channels), place.scale(),
                              spans.log_sum.data()[place.log_sums + i], along[place.log_sums + i]);
      weights[i] = pair.weight;
      scores[i] = pair.score;
    });
    each_of(block, 0, channels, [&](std::int64_t c) {
      float of_key = 0.0F, of_value = 0.0F;
      for (std::int64_t i = place.token; i < shape.sequence; ++i) {
        of_key = std::fma(scores[i], to_float(qkv[place.in_qkv(i, 0) + c]), of_key);
        of_value = std::fma(weights[i], to_float(dy[place.in_y(i) + c]), of_value);
      }
      spans.dqkv.data()[place.in_qkv(place.token, 1) + c] = narrow<A>(of_key);
      spans.dqkv.data()[place.in_qkv(place.token, 2) + c] = narrow<A>(of_value);
    });
  }
};

}  // namespace tandem::cuda
