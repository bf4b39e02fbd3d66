#pragma once
// What TeraPipe's programme looks for, by brute force.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulator/cost/slice_programme.h"

namespace tandem::testing {

/// microbatches · Σ t + (stages − 1) · max t of slices of these lengths.
inline std::int64_t slicing_value(const std::vector<std::int32_t>& lengths, std::int64_t stages,
                                  std::int64_t microbatches, const SliceTime& time) {
  std::int64_t sum = 0, most = 0;
  for (const SequencePart part : parts_of(lengths)) {
    const std::int64_t one = time(part).count();
    sum += one;
    most = std::max(most, one);
  }
  return microbatches * sum + (stages - 1) * most;
}

/// The least of all ways to cut `tokens` at multiples of `step`.
inline std::int64_t least_slicing_value(std::int32_t tokens, std::int32_t step, std::int64_t stages,
                                        std::int64_t microbatches, const SliceTime& time) {
  const std::int32_t ends = (tokens + step - 1) / step;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t cuts = 0; cuts < 1U << (ends - 1); ++cuts) {
    std::vector<std::int32_t> lengths;
    for (std::int32_t from = 0, to = 1; to <= ends; ++to) {
      if (to < ends && (cuts >> (to - 1) & 1) == 0) continue;
      lengths.push_back(std::min(tokens, to * step) - from * step);
      from = to;
    }
    best = std::min(best, slicing_value(lengths, stages, microbatches, time));
  }
  return best;
}

}  // namespace tandem::testing
