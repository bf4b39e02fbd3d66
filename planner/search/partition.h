#pragma once
// partition(): layers → consecutive stages, so that the costliest stage costs as little as can be.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/model/model.h"

namespace tandem {

struct PartitionProblem {
  std::int32_t layers = 1;
  std::int32_t depth = 1;  // stages; each gets at least one layer
  /// REQUIRES: not negative, and no less for a range than for a part of it.
  std::function<std::int64_t(LayerRange, std::size_t stage)> cost;
  /// Null: any range does. REQUIRES: true for each part of a range for which it is true.
  std::function<bool(LayerRange, std::size_t stage)> fits{};
};

/// The cut whose costliest stage costs least; among those, the one whose second costliest costs
/// least, and so on (leximax); among those, the one with the shorter first stage, then the shorter
/// second. Empty: no cut fits, or there are more stages than layers.
/// The least cost is found by bisection; then each stage starts between where stages as long as it
/// allows start from the front and from the back, and dynamic programming goes over these starts
/// alone, from the last stage on.
std::optional<std::vector<LayerRange>> partition(const PartitionProblem& problem);

/// The same of cuts whose stages start and end at these layers alone: 0 first, problem.layers last,
/// ascending.
std::optional<std::vector<LayerRange>> partition_at(const std::vector<std::int32_t>& boundaries,
                                                    const PartitionProblem& problem);

}  // namespace tandem
