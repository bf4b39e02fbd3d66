#pragma once
// Losses, and sums of squares: numbers for the host, in double, made in two stages. A block sums a
// part that the shape alone decides, then one block sums the parts.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

inline constexpr std::int64_t kElementsOfPart = 16384;

/// Elements of double that these kernels ask of the grid's workspace.
constexpr std::int64_t sum_workspace(std::int64_t elements) {
  return divide_up(elements, kElementsOfPart);
}
constexpr std::int64_t cross_entropy_workspace(RowShape shape) { return shape.rows; }

/// *result = factor · Σ value(i) for i < count, by all threads of a block.
template <class Block, class Value>
TANDEM_DEVICE void leave_sum(Block& block, std::int64_t count, double factor, double* result,
                             const Value& value) {
  double* scratch = block.template shared<double>(block.threads());
  const double sum = sum_all(block, scratch, count, value);
  block.each_thread([&](int thread) {
    if (thread == 0) *result = factor * sum;
  });
}

/// *result = factor · Σ parts, by one block.
struct SumParts {
  std::int64_t count;
  double factor;
  const double* parts;
  double* result;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    leave_sum(block, count, factor, result, [&](std::int64_t i) { return parts[i]; });
  }
};

inline constexpr GridShape kOneBlock{.blocks = 1, .shared_bytes = shared_bytes<double>(kThreads)};

/// The sum of term(place) over the packs of a block's part of `count` elements. Each is asked for
/// once.
template <class Term>
struct PartSum {
  std::int64_t count;
  bool whole;
  Term term;
  double* parts;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t first = block.index() * kElementsOfPart;
    const std::int64_t rest = count - first < kElementsOfPart ? count - first : kElementsOfPart;
    constexpr int kPack = Term::kPack;
    leave_sum(block, divide_up(rest, kPack), 1.0, parts + block.index(), [&](std::int64_t i) {
      return term(PackPlace<kPack>{first + i * kPack, rest - i * kPack, whole});
    });
  }
};

/// *result = factor · Σ of the term over `count` elements. `result` may be null: not wanted.
/// `whole`: packs_are_whole() of what the term moves.
template <class Grid, class Term>
void sum_terms(Grid& grid, std::int64_t count, const Term& term, bool whole, double factor,
               double* result) {
  const std::int64_t parts = sum_workspace(count);
  double* partial = grid.template workspace<double>(parts);
  grid.run({.blocks = parts, .shared_bytes = kOneBlock.shared_bytes},
           PartSum<Term>{count, whole, term, partial});
  if (result != nullptr) grid.run(kOneBlock, SumParts{parts, factor, partial, result});
}

template <class A>
struct SquaredErrorTerm {
  static constexpr int kPack = kPackOf<float>;
  const A* y;
  const float* expected;
  float scale;
  A* gradient;
  TANDEM_DEVICE double operator()(const PackPlace<kPack>& place) const {
    Pack<kPack> error = place.load(y);
    const Pack<kPack> wanted = place.load(expected);
    double sum = 0.0;
    for (int i = 0; i < kPack; ++i) {
      error[i] -= wanted[i];
      sum += static_cast<double>(error[i]) * static_cast<double>(error[i]);
      error[i] *= scale;
    }
    place.store(gradient, error);
    return sum;
  }
};

/// Of numbers met so far the largest, and Σ e^(number − largest): so one look at each will do.
struct OnlineSum {
  float largest = std::numeric_limits<float>::lowest(), sum = 0.0F;

  TANDEM_DEVICE OnlineSum with(const OnlineSum& other) const {
    const float most = other.largest > largest ? other.largest : largest;
    return {most,
            std::fma(sum, std::exp(largest - most), other.sum * std::exp(other.largest - most))};
  }
  template <int N>
  TANDEM_DEVICE static OnlineSum of(const Pack<N>& pack, std::int64_t count) {
    OnlineSum made;
    for (int i = 0; i < N; ++i) {
      if (i < count && pack[i] > made.largest) made.largest = pack[i];
    }
    for (int i = 0; i < N; ++i) made.sum += i < count ? std::exp(pack[i] - made.largest) : 0.0F;
    return made;
  }
};

/// A block a row of logits, which become their gradient. A target that is no column makes the loss
/// no number.
template <class A>
struct CrossEntropyRow {
  static constexpr int kPack = kPackOf<A>;
  std::int64_t width;
  bool whole;
  float scale;
  const std::int32_t* targets;
  A* logits;
  double* losses;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t packs = divide_up(width, kPack);
    auto* scratch = block.template shared<OnlineSum>(block.threads());
    A* const x = logits + block.index() * width;
    const auto place_of = [&](std::int64_t i) {
      return PackPlace<kPack>{i * kPack, width - i * kPack, whole};
    };
    const OnlineSum all = combine_all(
        block, scratch, packs, OnlineSum{},
        [&](std::int64_t i) { return OnlineSum::of(place_of(i).load(x), width - i * kPack); },
        [](const OnlineSum& a, const OnlineSum& b) { return a.with(b); });
    const std::int64_t target = targets[block.index()];
    block.each_thread([&](int thread) {
      if (thread != 0) return;
      const double wanted = target >= 0 && target < width
                                ? static_cast<double>(to_float(x[target]))
                                : std::numeric_limits<double>::quiet_NaN();
      losses[block.index()] =
          std::log(static_cast<double>(all.sum)) + (static_cast<double>(all.largest) - wanted);
    });
    each_of(block, 0, packs, [&](std::int64_t i) {
      const PackPlace<kPack> place = place_of(i);
      Pack<kPack> pack = place.load(x);
      for (int j = 0; j < kPack; ++j) {
        const float wanted = place.first + j == target ? scale : 0.0F;
        pack[j] = std::exp(pack[j] - all.largest) * (scale / all.sum) - wanted;
      }
      place.store(x, pack);
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
  grid.run({.blocks = shape.rows, .shared_bytes = shared_bytes<OnlineSum>(kThreads)},
           CrossEntropyRow<A>{shape.width, rows_are_whole(shape.width, logits.data()),
                              static_cast<float>(scale), targets.data(), logits.data(), losses});
  if (loss == nullptr) return;
  grid.run(kOneBlock, SumParts{shape.rows, 1.0 / static_cast<double>(shape.rows), losses, loss});
}

}  // namespace tandem::cuda
