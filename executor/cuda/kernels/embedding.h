#pragma once
// Token and position embedding. Gradients are sums in ascending order of the rows, onto what is
// there, without atomics: the first row that has a token adds up all that have it.

#include <cstdint>
#include <limits>
#include <span>

#include "core/base/check.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

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

/// A block a row of dy, which works if no row before it has its token. It looks at kThreads rows at a
/// time, and notes those that have the token in bits.
template <class A>
struct TokenGradient {
  std::int64_t rows, width, vocabulary;
  const float* tokens;
  const A* dy;
  float* dtable;

  static constexpr int kBits = 32, kWords = kThreads / kBits;
  static GridShape grid(std::int64_t rows) {
    return {.blocks = rows, .shared_bytes = shared_bytes<std::uint32_t>(kThreads + kWords)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    std::uint32_t* const has = block.template shared<std::uint32_t>(block.threads());
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
        for (int bit = 0; bit < kBits; ++bit) word |= has[thread * kBits + bit] << bit;
        words[thread] = word;
      });
      std::uint32_t any = 0;
      bool is_first = true;
      for (int i = 0; i < kWords; ++i) {
        const std::uint32_t word = block.read(words[i]);
        any |= word;
        for (int bit = 0; bit < kBits && first + i * kBits + bit < block.index(); ++bit)
          is_first = is_first && (word >> bit & 1U) == 0;
      }
      if (!is_first) return;
      if (any == 0) continue;
      each_of(block, 0, width, [&](std::int64_t column) { add_rows(words, first, token, column); });
    }
  }

 private:
  TANDEM_DEVICE void add_rows(const std::uint32_t* words, std::int64_t first, std::int64_t token,
                              std::int64_t column) const {
    float sum = dtable[token * width + column];
    for (int i = 0; i < kWords; ++i) {
      for (std::uint32_t word = words[i], bit = 0; word != 0; word >>= 1U, ++bit) {
        if ((word & 1U) != 0) sum += to_float(dy[(first + i * kBits + bit) * width + column]);
      }
    }
    dtable[token * width + column] = sum;
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
