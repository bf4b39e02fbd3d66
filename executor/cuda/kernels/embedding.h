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
  const A *table, *positions;  // positions null: none are learned
  A* y;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width;
    const auto token = static_cast<std::int64_t>(tokens[row]);
    const bool known = token >= 0 && token < vocabulary;
    const float meaning =
        known ? to_float(table[token * width + column]) : std::numeric_limits<float>::quiet_NaN();
    const float place =
        positions != nullptr ? to_float(positions[row % sequence * width + column]) : 0.0F;
    y[i] = narrow<A>(meaning + place);
  }
};

/// A block a row of dy, which works if no row before it has its token. It looks at kRows rows at a
/// time, lists those that have the token, and adds them in order, with several on their way.
template <class A>
struct TokenGradient {
  std::int64_t rows, width, vocabulary;
  bool whole;
  const float* tokens;
  const A* dy;
  float* dtable;

  static constexpr int kRowsOfThread = 8, kRows = kThreads * kRowsOfThread;
  static constexpr int kPack = kPackOf<float>, kAhead = 16;
  GridShape grid() const {
    return {.blocks = rows,
            .shared_bytes = shared_bytes<int>(kThreads) + shared_bytes<int>(kRows + 1)};
  }

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    int* const counts = block.template shared<int>(block.threads());
    int* const list = block.template shared<int>(kRows + 1);  // and how many there are
    const float own = tokens[block.index()];
    const auto token = static_cast<std::int64_t>(own);
    if (token < 0 || token >= vocabulary) return;
    const auto has = [&](std::int64_t row) { return row < rows && tokens[row] == own; };
    for (std::int64_t first = 0; first < rows; first += kRows) {
      block.each_thread([&](int thread) {
        counts[thread] = 0;
        for (int i = 0; i < kRowsOfThread; ++i)
          counts[thread] += has(first + thread * kRowsOfThread + i) ? 1 : 0;
      });
      block.each_thread([&](int thread) {
        if (thread + 1 < block.threads() && counts[thread] == 0) return;
        int place = 0;
        for (int before = 0; before < thread; ++before) place += counts[before];
        for (int i = 0; i < kRowsOfThread; ++i) {
          if (has(first + thread * kRowsOfThread + i)) list[place++] = thread * kRowsOfThread + i;
        }
        if (thread + 1 == block.threads()) list[kRows] = place;
      });
      const int count = block.read(list[kRows]);
      if (count == 0) continue;
      if (first + block.read(list[0]) < block.index()) return;  // another block's
      each_of(block, 0, divide_up(width, kPack), [&](std::int64_t i) {
        add_rows(list, count, first, {i * kPack, width - i * kPack, whole}, dtable + token * width);
      });
    }
  }

 private:
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
