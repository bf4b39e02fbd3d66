#pragma once
// Token and position embedding. Gradients are sums in ascending order of the rows, onto what is
// there, without atomics: the first row that has a token adds up all that have it.

#include <cstdint>
#include <limits>
#include <span>

#include "core/base/check.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

struct KeepTokens {
  const std::int32_t* tokens;
  float* kept;
  TANDEM_DEVICE void operator()(std::int64_t i) const { kept[i] = static_cast<float>(tokens[i]); }
};

/// A token that the table does not have gives numbers that are none, so that a run can't go on.
template <class A>
struct EmbedElement {
  std::int64_t sequence, width, vocabulary;
  const float* tokens;
  const A *table, *positions;
  A* y;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width;
    const auto token = static_cast<std::int64_t>(tokens[row]);
    const bool known = token >= 0 && token < vocabulary;
    const float meaning =
        known ? to_float(table[token * width + column]) : std::numeric_limits<float>::quiet_NaN();
    y[i] = narrow<A>(meaning + to_float(positions[row % sequence * width + column]));
  }
};

/// How many bits are set.
TANDEM_DEVICE constexpr int ones(std::uint32_t bits) {
  bits -= bits >> 1U & 0x55555555U;
  bits = (bits & 0x33333333U) + (bits >> 2U & 0x33333333U);
  bits = (bits + (bits >> 4U)) & 0x0F0F0F0FU;
  return static_cast<int>(bits * 0x01010101U >> 24U);
}

/// A block a row of dy, which works if no row before it has its token. It looks at kThreads rows at a
/// time, lists those that have the token, and adds them in order, with several on their way.
template <class A>
struct TokenGradient {
  std::int64_t rows, width, vocabulary;
  bool whole;
  const float* tokens;
  const A* dy;
  float* dtable;

  static constexpr int kBits = 32, kWords = kThreads / kBits, kPack = kPackOf<float>, kAhead = 8;
  GridShape grid() const {
    return {.blocks = rows,
            .shared_bytes = shared_bytes<int>(kThreads) + shared_bytes<int>(kThreads + 1) +
                            shared_bytes<std::uint32_t>(kWords)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    int* const has = block.template shared<int>(block.threads());
    int* const list = block.template shared<int>(block.threads() + 1);  // and how many there are
    std::uint32_t* const words = block.template shared<std::uint32_t>(kWords);
    const float own = tokens[block.index()];
    const auto token = static_cast<std::int64_t>(own);
    if (token < 0 || token >= vocabulary) return;
    for (std::int64_t first = 0; first < rows; first += block.threads()) {
      block.each_thread([&](int thread) {
        has[thread] = first + thread < rows && tokens[first + thread] == own ? 1 : 0;
      });
      block.each_thread([&](int thread) {
        if (thread >= kWords) return;
        std::uint32_t word = 0;
        for (int bit = 0; bit < kBits; ++bit)
          word |= static_cast<std::uint32_t>(has[thread * kBits + bit]) << bit;
        words[thread] = word;
      });
      block.each_thread([&](int thread) {
        const int place = before(words, thread);
        if (has[thread] != 0) list[place] = thread;
        if (thread + 1 == block.threads()) list[block.threads()] = place + has[thread];
      });
      const int count = block.read(list[block.threads()]);
      if (count == 0) continue;
      if (first + block.read(list[0]) < block.index()) return;  // another block's
      each_of(block, 0, divide_up(width, kPack), [&](std::int64_t i) {
        add_rows(list, count, first, {i * kPack, width - i * kPack, whole}, dtable + token * width);
      });
    }
  }

 private:
  /// How many of the threads before this one have a bit.
  TANDEM_DEVICE static int before(const std::uint32_t* words, int thread) {
    int count = 0;
    for (int i = 0; i < thread / kBits; ++i) count += ones(words[i]);
    if (const int rest = thread % kBits; rest != 0)
      count += ones(words[thread / kBits] & ((1U << rest) - 1));
    return count;
  }

  TANDEM_DEVICE void add_rows(const int* list, int count, std::int64_t first,
                              const PackPlace<kPack>& place, float* to) const {
    Pack<kPack> sum = place.load(to);
    for (int i = 0; i < count; i += kAhead) {
      Pack<kPack> ahead[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        if (i + j < count) ahead[j] = place.load(dy + (first + list[i + j]) * width);
      }
      for (int j = 0; j < kAhead; ++j) {
        for (int k = 0; k < kPack; ++k) sum[k] += i + j < count ? ahead[j][k] : 0.0F;
      }
    }
    place.store(to, sum);
  }
};

template <class A>
struct PositionGradient {
  std::int64_t batch, size;  // of the samples, and of all positions' channels
  const A* dy;
  float* dpositions;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    float sum = dpositions[i];
    for (std::int64_t sample = 0; sample < batch; ++sample) sum += to_float(dy[sample * size + i]);
    dpositions[i] = sum;
  }
};

/// REQUIRES: 0 ≤ tokens < 2²⁴.
template <class Grid>
void keep_tokens(Grid& grid, std::span<const std::int32_t> tokens, std::span<float> kept) {
  TANDEM_CHECK(tokens.size() == kept.size(), tokens.size(), kept.size());
  run_each_element(grid, std::ssize(kept), KeepTokens{tokens.data(), kept.data()});
}

}  // namespace tandem::cuda
