#include "planner/study/uncertainty.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace tandem {

namespace {

/// Scenarios are independent, block by block.
std::vector<Duration> all_times(const Scenarios& scenarios, std::int64_t count,
                                const ForEach& for_each) {
  std::vector<Duration> times(static_cast<std::size_t>(count));
  const Activity progress("simulating scenarios", count);
  const std::size_t blocks = (times.size() + Scenarios::kAtOnce - 1) / Scenarios::kAtOnce;
  for_each(blocks, [&](std::size_t block) {
    const std::size_t first = block * Scenarios::kAtOnce;
    const auto some = scenarios.times(static_cast<std::int64_t>(first));
    const std::size_t kept = std::min(some.size(), times.size() - first);
    std::copy_n(some.begin(), kept, times.begin() + static_cast<std::ptrdiff_t>(first));
    progress.step(static_cast<std::int64_t>(kept));
  });
  return times;
}

}  // namespace

double Spread::percentile_s(double percent) const {
  const auto rank = static_cast<std::size_t>(
      std::ceil(percent / 100.0 * static_cast<double>(sorted_s.size()) - 1e-9));
  return sorted_s[std::clamp<std::size_t>(rank, 1, sorted_s.size()) - 1];
}

double Spread::mean_s() const {
  double sum = 0.0;
  for (const double seconds : sorted_s) sum += seconds;
  return sum / static_cast<double>(sorted_s.size());
}

Spread spread_of(const Scenario& scenario, const UncertaintyRequest& request, std::int64_t batches,
                 const ForEach& for_each) {
  if (scenario.network) {
    throw InputError(
        "--scenarios and --contention exclude each other: scenarios need a fixed price for each "
        "transfer, and on shared links it has none");
  }
  const Scenarios scenarios(scenario.program, scenario.costs, request.what, batches);
  const auto a_batch = [&](Duration time) {
    return to_seconds(time) / static_cast<double>(scenarios.batches());
  };
  Spread spread{.request = request,
                .batches = scenarios.batches(),
                .plain_s = a_batch(scenarios.plain()),
                .sorted_s = {}};
  for (const Duration time : all_times(scenarios, request.scenarios, for_each))
    spread.sorted_s.push_back(a_batch(time));
  std::sort(spread.sorted_s.begin(), spread.sorted_s.end());
  return spread;
}

}  // namespace tandem
