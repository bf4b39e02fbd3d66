#pragma once
// How the time of a batch varies where ops jitter and devices straggle.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "simulator/analysis/scenarios.h"
#include "simulator/scenario.h"

namespace tandem {

struct UncertaintyRequest {
  Uncertainty what;
  std::int64_t scenarios = 0;
};

/// Calls the function for 0 to count - 1, on whatever threads, and throws what it throws first.
using ForEach = std::function<void(std::size_t count, const std::function<void(std::size_t)>&)>;

/// Times of a batch, in seconds: the mean over the batches that a scenario counts.
struct Spread {
  UncertaintyRequest request;
  std::int64_t batches = 1;  // counted in each scenario
  double plain_s = 0;        // without noise
  std::vector<double> sorted_s;

  /// The least time within which so many percent of the scenarios are.
  double percentile_s(double percent) const;
  double mean_s() const;
};
/// Throws InputError where scenarios can't be swept.
Spread spread_of(const Scenario& scenario, const UncertaintyRequest& request, std::int64_t batches,
                 const ForEach& for_each);

}  // namespace tandem
