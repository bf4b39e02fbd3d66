#pragma once
// Ranges of elements as a kernel is handed them: by value, so there are only so many at a time.

#include <cstdint>
#include <span>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// Ascending ranges.
struct RangeTable {
  static constexpr std::size_t kMost = 120;  // arguments of a kernel are at most 4 KiB

  int count = 0;
  ElementRange ranges[kMost];

  RangeTable() = default;
  /// REQUIRES: at most kMost.
  explicit RangeTable(std::span<const ElementRange> given) {
    for (const ElementRange& range : given) ranges[count++] = range;
  }

  /// How many of them begin at or before this.
  TANDEM_DEVICE int begun_by(std::int64_t at) const {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (ranges[middle].first <= at)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  TANDEM_DEVICE bool contains(std::int64_t at) const {
    const int begun = begun_by(at);
    return begun > 0 && at < ranges[begun - 1].last;
  }
};

}  // namespace tandem::cuda
