#pragma once
// Losses, and sums of squares: numbers for the host, in double, made in two stages. A block sums a
// part that the shape alone decides, then one block sums the parts.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

inline constexpr std::int64_t kElementsOfPart = 16384;

/// Elements of double that these kernels ask of the grid's workspace.
constexpr std::int64_t sum_workspace(std::int64_t elements) {
  return divide_up(elements, kElementsOfPart);
}
constexpr std::int64_t cross_entropy_workspace(RowShape shape) { return shape.rows; }

/// *result = factor · Σ parts, by one block.
struct SumParts {
  std::int64_t count;
  double factor;
  const double* parts;
  double* result;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    double* scratch = block.template shared<double>(block.threads());
    const double sum = sum_all(block, scratch, count, [&](std::int64_t i) { return parts[i]; });
    block.each_thread([&](int thread) {
      if (thread == 0) *result = factor * sum;
    });
  }
};

inline constexpr GridShape kOneBlock{.blocks = 1, .shared_bytes = shared_bytes<double>(kThreads)};

/// The sum of term(i) over a block's part of `count` elements. Each term is asked for once.
template <class Term>
struct PartSum {
  std::int64_t count;
  Term term;
  double* parts;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    double* scratch = block.template shared<double>(block.threads());
    const std::int64_t first = block.index() * kElementsOfPart;
    const std::int64_t rest = count - first;
    const double sum = sum_all(block, scratch, rest < kElementsOfPart ? rest : kElementsOfPart,
                               [&](std::int64_t i) { return term(first + i); });
    block.each_thread([&](int thread) {
      if (thread == 0) parts[block.index()] = sum;
    });
  }
};

/// *result = factor · Σ term(i) for i < count. `result` may be null: not wanted.
template <class Grid, class Term>
void sum_terms(Grid& grid, std::int64_t count, const Term& term, double factor, double* result) {
  const std::int64_t parts = sum_workspace(count);
  double* partial = grid.template workspace<double>(parts);
  grid.run({.blocks = parts, .shared_bytes = kOneBlock.shared_bytes},
           PartSum<Term>{count, term, partial});
  if (result != nullptr) grid.run(kOneBlock, SumParts{parts, factor, partial, result});
}

template <class A>
struct Square {
  const A* x;
  TANDEM_DEVICE double operator()(std::int64_t i) const {
    const auto value = static_cast<double>(to_float(x[i]));
    return value * value;
  }
};

/// ½(y − expected)², which leaves its gradient.
template <class A>
struct SquaredErrorTerm {
  const A* y;
  const float* expected;
  float scale;
  A* gradient;
  TANDEM_DEVICE double operator()(std::int64_t i) const {
    const float error = to_float(y[i]) - expected[i];
    gradient[i] = narrow<A>(scale * error);
    return static_cast<double>(error) * static_cast<double>(error);
  }
};

/// A block a row of logits, which become their gradient. A target that is no column makes the loss
/// no number.
template <class A>
struct CrossEntropyRow {
  std::int64_t width;
  float scale;
  const std::int32_t* targets;
  A* logits;
  double* losses;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    float* scratch = block.template shared<float>(block.threads());
    A* x = logits + block.index() * width;
    const std::int64_t target = targets[block.index()];
    const auto value = [&](std::int64_t i) { return to_float(x[i]); };
    const float least = std::numeric_limits<float>::lowest();
    const float peak = largest_of_all(block, scratch, width, least, value);
    const auto above = [&](std::int64_t i) { return std::exp(value(i) - peak); };
    const float sum = sum_all(block, scratch, width, above);
    block.each_thread([&](int thread) {
      if (thread != 0) return;
      const double wanted = target >= 0 && target < width
                                ? static_cast<double>(value(target))
                                : std::numeric_limits<double>::quiet_NaN();
      losses[block.index()] =
          std::log(static_cast<double>(sum)) + (static_cast<double>(peak) - wanted);
    });
    each_of(block, 0, width, [&](std::int64_t i) {
      x[i] = narrow<A>(above(i) * (scale / sum) - (i == target ? scale : 0.0F));
    });
  }
};

/// Replaces logits by scale · dloss/dlogits of the sum over rows; *loss: the mean over rows, null:
/// not wanted.
template <class Grid, class A>
void cross_entropy(Grid& grid, RowShape shape, std::span<const std::int32_t> targets, double scale,
                   std::span<A> logits, double* loss) {
  TANDEM_CHECK(std::ssize(targets) == shape.rows && std::ssize(logits) == shape.rows * shape.width,
               targets.size(), logits.size(), shape.rows, shape.width);
  double* losses = grid.template workspace<double>(cross_entropy_workspace(shape));
  grid.run({.blocks = shape.rows, .shared_bytes = shared_bytes<float>(kThreads)},
           CrossEntropyRow<A>{shape.width, static_cast<float>(scale), targets.data(), logits.data(),
                              losses});
  if (loss == nullptr) return;
  grid.run(kOneBlock, SumParts{shape.rows, 1.0 / static_cast<double>(shape.rows), losses, loss});
}

}  // namespace tandem::cuda
