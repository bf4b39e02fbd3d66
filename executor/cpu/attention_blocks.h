#pragma once
// Causal attention in blocks of queries and keys: scores live on the stack, never in memory, and
// are made again in backward. Of any type of numbers that has exponential(), log() and fused().

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "executor/backend/kernels.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {

/// What multiplies blocks.
template <class T>
using BlockProduct = void (*)(const Gemm<T>&);

// Products pack a block of keys once for all its queries: so these are many, and the keys few, or
// too much of the causal half would be computed for nothing.
template <class T>
inline constexpr std::int64_t kQueries = 256;
template <class T>
inline constexpr std::int64_t kKeys = 64;

template <class T>
using Scores = std::array<T, static_cast<std::size_t>(kQueries<T>* kKeys<T>)>;
template <class T>
using OfQueries = std::array<T, static_cast<std::size_t>(kQueries<T>)>;

/// One head of one sample inside the dense tensors, how to walk it, and what multiplies. Keys and
/// values may be those of an earlier slice, or kept ones.
template <class T>
struct HeadView {
  const T *query = nullptr, *key = nullptr, *value = nullptr;
  std::int64_t qkv_row = 0, key_row = 0, row = 0;  // strides: of queries, of keys and values, of y
  std::int64_t before = 0;                         // keys before that of the first query
  std::int64_t channels = 0;
  T scale{};
  BlockProduct<T> product = nullptr;
};

/// Consecutive queries against a block of keys that starts not after them, or is of an earlier
/// slice.
struct Block {
  std::int64_t query = 0, queries = 0, key = 0, keys = 0;
  std::int64_t before = 0;  // keys before that of query 0
  bool is_earlier = false;
  bool is_first = false;  // the queries have seen no keys before these
  /// Keys that query `i` of the block may see, at most all.
  std::int64_t visible(std::int64_t i) const {
    return is_earlier ? keys : std::min(keys, before + query + i - key + 1);
  }
};

/// One head of one sample in an earlier slice.
template <class T>
struct EarlierHead {
  const T* key = nullptr;
  std::int64_t tokens = 0;
};
template <class T>
using EarlierHeads = std::vector<EarlierHead<T>>;

/// The same queries, with keys and values of an earlier slice.
template <class T>
HeadView<T> with_keys_of(HeadView<T> head, const EarlierHead<T>& earlier) {
  head.value = earlier.key + (head.value - head.key);
  head.key = earlier.key;
  return head;
}

/// left (queries × channels, rows `left_row` apart) times the transpose of right (keys × channels).
template <class T>
void multiply_transposed(const HeadView<T>& head, const Block& block, const T* left,
                         std::int64_t left_row, const T* right, std::int64_t right_row,
                         Scores<T>& out) {
  head.product(Gemm<T>{.rows = block.queries,
                       .inner = head.channels,
                       .columns = block.keys,
                       .a = left,
                       .a_row = left_row,
                       .b = right,
                       .b_inner = 1,
                       .b_column = right_row,
                       .c = out.data(),
                       .c_row = kKeys<T>,
                       .adds = false});
}

/// c += a·b: a (queries × keys) of scores, b the keys' rows of `part`, keys or values.
template <class T>
void add_product(const HeadView<T>& head, const Block& block, const Scores<T>& a, const T* part,
                 T* c, std::int64_t c_row) {
  head.product(Gemm<T>{.rows = block.queries,
                       .inner = block.keys,
                       .columns = head.channels,
                       .a = a.data(),
                       .a_row = kKeys<T>,
                       .b = part + block.key * head.key_row,
                       .b_inner = head.key_row,
                       .c = c,
                       .c_row = c_row});
}

/// Softmax over blocks of keys, one after the other: `out` is kept as if the keys seen so far were
/// all.
template <class T>
void attend_block(const HeadView<T>& head, const Block& block, std::span<T> peaks,
                  std::span<T> sums, T* out) {
  Scores<T> scores;
  multiply_transposed(head, block, head.query + block.query * head.qkv_row, head.qkv_row,
                      head.key + block.key * head.key_row, head.key_row, scores);
  on_widest_vectors([&]() TANDEM_LOOPS {
    for (std::int64_t i = 0; i < block.queries; ++i) {
      T* row = scores.data() + i * kKeys<T>;
      const auto visible = static_cast<std::size_t>(block.visible(i));
      for (std::size_t j = 0; j < visible; ++j) row[j] *= head.scale;
      T& peak = peaks[static_cast<std::size_t>(i)];
      T& sum = sums[static_cast<std::size_t>(i)];
      const T new_peak = std::max(peak, largest(row, visible));
      const T shrink = block.is_first ? T{0} : exponential(peak - new_peak);
      for (std::size_t j = 0; j < visible; ++j) row[j] = exponential(row[j] - new_peak);
      std::fill(row + visible, row + block.keys, T{});
      const auto weight = [row](std::size_t j) TANDEM_LOOPS { return row[j]; };
      sum = fused(sum, shrink, lane_sum<T>(visible, weight));
      peak = new_peak;
      T* y = out + i * head.row;
      for (std::int64_t c = 0; c < head.channels; ++c) y[c] *= shrink;
    }
  });
  add_product(head, block, scores, head.value, out, head.row);
}

/// The part of queries [first, last) that sees the block of keys from `key` on; `before` keys are
/// not of the `sequence` tokens at hand.
template <class T>
Block block_of(std::int64_t first, std::int64_t last, std::int64_t key, std::int64_t before,
               std::int64_t sequence) {
  const std::int64_t query = std::max(first, key - before);
  return {.query = query,
          .queries = last - query,
          .key = key,
          .keys = std::min(kKeys<T>, before + sequence - key),
          .before = before};
}

/// Calls visit(block, number of the slice) for queries [first, last) against the keys of each
/// earlier slice in turn.
template <class T>
void for_each_earlier(const EarlierHeads<T>& earlier, std::int64_t first, std::int64_t last,
                      const auto& visit) {
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    for (std::int64_t key = 0; key < earlier[i].tokens; key += kKeys<T>) {
      visit(Block{.query = first,
                  .queries = last - first,
                  .key = key,
                  .keys = std::min(kKeys<T>, earlier[i].tokens - key),
                  .is_earlier = true,
                  .is_first = i == 0 && key == 0},
            i);
    }
  }
}

template <class T>
void attend_head(const HeadView<T>& head, const EarlierHeads<T>& earlier, std::int64_t sequence,
                 T* log_sum, T* out) {
  using std::log;
  for (std::int64_t first = 0; first < sequence; first += kQueries<T>) {
    const std::int64_t last = std::min(first + kQueries<T>, sequence);
    OfQueries<T> peaks, sums{};
    peaks.fill(std::numeric_limits<T>::lowest());
    for (std::int64_t i = first; i < last; ++i) std::fill_n(out + i * head.row, head.channels, T{});
    for_each_earlier(earlier, first, last, [&](const Block& block, std::size_t slice) {
      attend_block<T>(with_keys_of(head, earlier[slice]), block, peaks, sums,
                      out + first * head.row);
    });
    for (std::int64_t key = 0; key < head.before + last; key += kKeys<T>) {
      Block block = block_of<T>(first, last, key, head.before, sequence);
      block.is_first = key == 0 && earlier.empty();
      const auto skipped = static_cast<std::size_t>(block.query - first);
      attend_block<T>(head, block, std::span(peaks).subspan(skipped),
                      std::span(sums).subspan(skipped), out + block.query * head.row);
    }
    for (std::int64_t i = first; i < last; ++i) {
      const auto at = static_cast<std::size_t>(i - first);
      const T inverse = T{1} / sums[at];
      for (std::int64_t c = 0; c < head.channels; ++c) out[i * head.row + c] *= inverse;
      log_sum[i] = peaks[at] + log(sums[at]);
    }
  }
}

/// What backward of one head reads besides, and adds to.
template <class T>
struct HeadGradient {
  const T *log_sum = nullptr, *y = nullptr, *dy = nullptr;
  T *query = nullptr, *key = nullptr, *value = nullptr;
  std::int64_t key_row = 0;  // stride of the gradients of keys and values
};

/// c += aᵀ·b: a (queries × keys) of scores, b rows of channels.
template <class T>
void add_transposed_product(const HeadView<T>& head, const Block& block, const Scores<T>& a,
                            const T* b, std::int64_t b_row, T* c, std::int64_t c_row) {
  head.product(Gemm<T>{.rows = block.keys,
                       .inner = block.queries,
                       .columns = head.channels,
                       .a = a.data(),
                       .a_row = 1,
                       .a_inner = kKeys<T>,
                       .b = b,
                       .b_inner = b_row,
                       .c = c,
                       .c_row = c_row});
}

/// `along[i]`: Σ over channels of dy·y, for query i: what the softmax's normalisation takes off.
template <class T>
void backward_block(const HeadView<T>& head, const HeadGradient<T>& gradient, const Block& block,
                    std::span<const T> along) {
  Scores<T> weights, dscores;
  const T* query = head.query + block.query * head.qkv_row;
  const T* key = head.key + block.key * head.key_row;
  const T* dy = gradient.dy + block.query * head.row;
  multiply_transposed(head, block, query, head.qkv_row, key, head.key_row, weights);
  multiply_transposed(head, block, dy, head.row, head.value + block.key * head.key_row,
                      head.key_row, dscores);
  on_widest_vectors([&]() TANDEM_LOOPS {
    for (std::int64_t i = 0; i < block.queries; ++i) {
      T* weight = weights.data() + i * kKeys<T>;
      T* dscore = dscores.data() + i * kKeys<T>;
      const T log_sum = gradient.log_sum[block.query + i];
      const T normal = along[static_cast<std::size_t>(i)];
      const std::int64_t visible = block.visible(i);
      for (std::int64_t j = 0; j < visible; ++j) {
        weight[j] = exponential(fused(weight[j], head.scale, -log_sum));
        dscore[j] = weight[j] * (dscore[j] - normal) * head.scale;
      }
      std::fill(weight + visible, weight + block.keys, T{});
      std::fill(dscore + visible, dscore + block.keys, T{});
    }
  });
  add_transposed_product(head, block, weights, dy, head.row,
                         gradient.value + block.key * gradient.key_row, gradient.key_row);
  add_transposed_product(head, block, dscores, query, head.qkv_row,
                         gradient.key + block.key * gradient.key_row, gradient.key_row);
  add_product(head, block, dscores, head.key, gradient.query + block.query * head.qkv_row,
              head.qkv_row);
}

/// `context`: where the gradients of the sample's keys and values of the head are summed, if
/// anything is earlier.
template <class T>
void backward_head(const HeadView<T>& head, const HeadGradient<T>& gradient,
                   const EarlierHeads<T>& earlier, const HeadGradient<T>& context,
                   std::int64_t sequence) {
  for (std::int64_t first = 0; first < sequence; first += kQueries<T>) {
    const std::int64_t last = std::min(first + kQueries<T>, sequence);
    OfQueries<T> along{};
    on_widest_vectors([&]() TANDEM_LOOPS {
      for (std::int64_t i = first; i < last; ++i) {
        const T* y = gradient.y + i * head.row;
        const T* dy = gradient.dy + i * head.row;
        const auto product = [=](std::size_t c) TANDEM_LOOPS { return y[c] * dy[c]; };
        along[static_cast<std::size_t>(i - first)] =
            lane_sum<T>(static_cast<std::size_t>(head.channels), product);
      }
    });
    HeadGradient<T> of_slice = context;
    std::size_t at = 0;
    for_each_earlier(earlier, first, last, [&](const Block& block, std::size_t slice) {
      for (; at < slice; ++at) {
        of_slice.key += earlier[at].tokens * of_slice.key_row;
        of_slice.value += earlier[at].tokens * of_slice.key_row;
      }
      backward_block<T>(with_keys_of(head, earlier[slice]), of_slice, block, along);
    });
    for (std::int64_t key = 0; key < last; key += kKeys<T>) {
      const Block block = block_of<T>(first, last, key, 0, sequence);
      backward_block<T>(head, gradient, block,
                        std::span(along).subspan(static_cast<std::size_t>(block.query - first)));
    }
  }
}

/// Where head `head` of sample `sample` begins in qkv's query part, and its keys and values.
template <class T>
HeadView<T> view_of(const AttentionShape& shape, std::span<const T> qkv, std::int64_t sample,
                    std::int64_t head, BlockProduct<T> product) {
  const std::int64_t channels = shape.head_width();
  const T* row = qkv.data() + sample * shape.sequence * shape.qkv_width();
  const T* key = row + shape.width + shape.key_head_of(head) * channels;
  return {.query = row + head * channels,
          .key = key,
          .value = key + shape.key_width(),
          .qkv_row = shape.qkv_width(),
          .key_row = shape.qkv_width(),
          .row = shape.width,
          .channels = channels,
          .scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(channels))),
          .product = product};
}

/// The same, with the keys and values that are kept, where any are.
template <class T>
HeadView<T> with_kept(const AttentionShape& shape, HeadView<T> head, std::span<const T> kept,
                      std::int64_t sample, std::int64_t number) {
  if (kept.empty()) return head;
  head.key_row = 2 * shape.key_width();
  const std::int64_t tokens = kept_tokens(shape, kept);
  head.before = tokens - shape.sequence;
  head.key =
      kept.data() + sample * tokens * head.key_row + shape.key_head_of(number) * head.channels;
  head.value = head.key + shape.key_width();
  return head;
}

/// The same head in earlier slices.
template <class T>
EarlierHeads<T> earlier_heads(const AttentionShape& shape,
                              std::span<const std::span<const T>> slices, std::int64_t sample,
                              std::int64_t head) {
  EarlierHeads<T> earlier;
  const std::int64_t row = shape.qkv_width();
  for (const std::span<const T> slice : slices) {
    const std::int64_t tokens = std::ssize(slice) / (shape.batch * row);
    earlier.push_back({.key = slice.data() + sample * tokens * row + shape.width +
                              shape.key_head_of(head) * shape.head_width(),
                       .tokens = tokens});
  }
  return earlier;
}

/// Gradients begin at 0; those of keys and values at what later tokens have added: `whole` rows of
/// a sample in `context`, or none.
template <class T>
void begin_gradients(const AttentionShape& shape, std::int64_t before, std::int64_t whole,
                     std::span<const T> context, std::span<T> dqkv) {
  std::ranges::fill(dqkv, T{});
  if (whole == 0) return;
  const std::int64_t both = 2 * shape.key_width();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t token = 0; token < shape.sequence; ++token) {
      std::copy_n(
          context.data() + (sample * whole + before + token) * both, both,
          dqkv.data() + (sample * shape.sequence + token) * shape.qkv_width() + shape.width);
    }
  }
}

/// The kernel `attention` (executor/backend/kernels.h).
template <class T>
void attend(const AttentionShape& shape, const AttentionForward<T>& spans,
            BlockProduct<T> product) {
  check_attention(shape, spans.qkv, spans.log_sum, spans.y);
  context_of(shape, spans.earlier);  // checks
  TANDEM_CHECK(spans.kept.empty() || spans.earlier.empty(), spans.kept.size());
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadView<T> view = with_kept(shape, view_of(shape, spans.qkv, sample, head, product),
                                         spans.kept, sample, head);
      attend_head(view, earlier_heads(shape, spans.earlier, sample, head), shape.sequence,
                  spans.log_sum.data() + (sample * shape.heads + head) * shape.sequence,
                  spans.y.data() + sample * shape.sequence * shape.width + head * view.channels);
    }
  }
}

/// And its backward.
template <class T>
void attend_backward(const AttentionShape& shape, const AttentionBackward<T>& spans,
                     BlockProduct<T> product) {
  check_attention(shape, spans.qkv, spans.log_sum, spans.y);
  check_attention(shape, spans.dqkv, spans.log_sum, spans.dy);
  const std::int64_t whole = check_context(shape, spans);
  begin_gradients<T>(shape, context_of(shape, spans.earlier), whole, spans.context_gradient,
                     spans.dqkv);
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadView<T> view = view_of(shape, spans.qkv, sample, head, product);
      const std::int64_t at = sample * shape.sequence * shape.width + head * view.channels;
      T* query = spans.dqkv.data() + (view.query - spans.qkv.data());
      T* key = spans.dqkv.data() + (view.key - spans.qkv.data());
      const HeadGradient<T> own{
          .log_sum = spans.log_sum.data() + (sample * shape.heads + head) * shape.sequence,
          .y = spans.y.data() + at,
          .dy = spans.dy.data() + at,
          .query = query,
          .key = key,
          .value = key + shape.key_width(),
          .key_row = shape.qkv_width()};
      HeadGradient<T> context = own;
      if (whole > 0) {
        context.key = spans.context_gradient.data() + sample * whole * 2 * shape.key_width() +
                      shape.key_head_of(head) * view.channels;
        context.value = context.key + shape.key_width();
        context.key_row = 2 * shape.key_width();
      }
      backward_head(view, own, earlier_heads(shape, spans.earlier, sample, head), context,
                    shape.sequence);
    }
  }
}

}  // namespace tandem::cpu
