#pragma once
// Sums of squares of many tensors that lie side by side: for norms of gradients, in double. A
// launch for the parts of all, and one that adds up those of each.

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/cuda/kernels/loss.h"
#include "executor/cuda/kernels/pack.h"
#include "executor/cuda/kernels/range_table.h"

namespace tandem::cuda {

/// Ranges, and where the parts of each begin among all parts.
struct PartTable {
  RangeTable ranges;
  std::int32_t first_part[RangeTable::kMost + 1] = {};

  explicit PartTable(std::span<const ElementRange> given) : ranges(given) {
    for (int i = 0; i < ranges.count; ++i) {
      const std::int64_t parts = sum_workspace(ranges.ranges[i].size());
      first_part[i + 1] = first_part[i] + static_cast<std::int32_t>(parts);
    }
  }
  std::int64_t parts() const { return first_part[ranges.count]; }

  /// Which range a part is of.
  TANDEM_DEVICE int range_of(std::int64_t part) const {
    int low = 0, high = ranges.count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_part[middle] <= part)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

/// A block a part.
template <class A>
struct SquaresOfPart {
  PartTable table;
  const A* x;
  double* parts;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    constexpr int kPack = kPackOf<A>;
    const int index = table.range_of(block.index());
    const ElementRange range = table.ranges.ranges[index];
    const std::int64_t first =
        range.first + (block.index() - table.first_part[index]) * kElementsOfPart;
    const std::int64_t rest = range.last - first;
    const std::int64_t count = rest < kElementsOfPart ? rest : kElementsOfPart;
    const bool whole = reinterpret_cast<std::uintptr_t>(x + first) % kPackBytes == 0;
    leave_sum(block, divide_up(count, kPack), 1.0, parts + block.index(), [&](std::int64_t i) {
      const Pack<kPack> pack =
          PackPlace<kPack>{first + i * kPack, count - i * kPack, whole}.load(x);
      double squares = 0.0;
      for (const float each : pack.values)
        squares += static_cast<double>(each) * static_cast<double>(each);
      return squares;
    });
  }
};

/// A block a range.
struct AddParts {
  PartTable table;
  double factor;
  const double* parts;
  double* sums;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const std::int64_t first = table.first_part[block.index()];
    leave_sum(block, table.first_part[block.index() + 1] - first, factor, sums + block.index(),
              [&](std::int64_t i) { return parts[first + i]; });
  }
};

/// Elements of double that sums_of_squares() asks of the grid's workspace at most, for so many
/// elements in so many ranges.
constexpr std::int64_t squares_workspace(std::int64_t elements, std::int64_t ranges) {
  return elements / kElementsOfPart + ranges;
}

/// sums[i] = factor · Σ x² over range i.
template <class Grid, class A>
void sums_of_squares(Grid& grid, std::span<const A> x, std::span<const ElementRange> ranges,
                     double factor, std::span<double> sums) {
  TANDEM_CHECK(ranges.size() == sums.size(), ranges.size(), sums.size());
  for (std::size_t first = 0; first < ranges.size(); first += RangeTable::kMost) {
    const PartTable table(
        ranges.subspan(first, std::min(ranges.size() - first, RangeTable::kMost)));
    double* parts = grid.template workspace<double>(table.parts());
    grid.run({.blocks = table.parts(), .shared_bytes = kOneBlock.shared_bytes},
             SquaresOfPart<A>{table, x.data(), parts});
    grid.run({.blocks = table.ranges.count, .shared_bytes = kOneBlock.shared_bytes},
             AddParts{table, factor, parts, sums.data() + first});
  }
}

}  // namespace tandem::cuda
