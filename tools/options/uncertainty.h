#pragma once
// --scenarios: how the time of a batch varies where ops jitter and devices straggle.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/analysis/scenarios.h"
#include "tools/options/scenario.h"

namespace tandem::tools {

/// --scenarios, --jitter, --straggler-rate and --threads; the seed is --seed.
void add_uncertainty_options(Options& options);

struct UncertaintyRequest {
  Uncertainty what;
  std::int64_t scenarios = 0;
  std::int64_t threads = 1;
};
/// Empty: no --scenarios. Takes --seed out of the options where the schedule has none of its own.
/// Throws UsageError.
std::optional<UncertaintyRequest> uncertainty_of(Options& options);

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
Spread spread_of(const Scenario& scenario, const UncertaintyRequest& request, std::int64_t batches);

void print_spread(const Spread& spread);
Json spread_json(const Spread& spread);

}  // namespace tandem::tools
