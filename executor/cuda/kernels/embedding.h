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

/// A block a row of dy, which works if no row before it has its token.
template <class A>
struct TokenGradient {
  std::int64_t rows, width, vocabulary;
  const float* tokens;
  const A* dy;
  float* dtable;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    int* scratch = block.template shared<int>(block.threads());
    const float own = tokens[block.index()];
    const auto token = static_cast<std::int64_t>(own);
    const auto same = [&](std::int64_t row) { return tokens[row] == own ? 1 : 0; };
    const bool is_first = sum_all(block, scratch, block.index(), same) == 0;
    if (!is_first || token < 0 || token >= vocabulary) return;
    each_of(block, 0, width, [&](std::int64_t column) {
      float sum = dtable[token * width + column];
      for (std::int64_t row = block.index(); row < rows; ++row) {
        if (tokens[row] == own) sum += to_float(dy[row * width + column]);
      }
      dtable[token * width + column] = sum;
    });
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
