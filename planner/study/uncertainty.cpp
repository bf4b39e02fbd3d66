#include "planner/study/uncertainty.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace tandem {

namespace {

/// Scenarios are independent, so threads take blocks of them as they come.
std::vector<Duration> all_times(const Scenarios& scenarios, const UncertaintyRequest& request) {
  const auto count = static_cast<std::size_t>(request.scenarios);
  std::vector<Duration> times(count);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> ended = false;
  const Activity progress("simulating scenarios", request.scenarios);
  const auto blocks = [&] {
    while (!ended) {
      const std::size_t first = next.fetch_add(Scenarios::kAtOnce);
      if (first >= count) return;
      const auto block = scenarios.times(static_cast<std::int64_t>(first));
      const std::size_t some = std::min(block.size(), count - first);
      std::copy_n(block.begin(), some, times.begin() + static_cast<std::ptrdiff_t>(first));
      progress.step(static_cast<std::int64_t>(some));
    }
  };
  const auto work = [&] {
    try {
      blocks();
    } catch (const Interrupted&) {
      ended = true;
    }
  };
  std::vector<std::jthread> threads;
  for (std::int64_t i = 1; i < request.threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins them
  if (ended) throw Interrupted("interrupted");
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

Spread spread_of(const Scenario& scenario, const UncertaintyRequest& request,
                 std::int64_t batches) {
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
  for (const Duration time : all_times(scenarios, request))
    spread.sorted_s.push_back(a_batch(time));
  std::sort(spread.sorted_s.begin(), spread.sorted_s.end());
  return spread;
}

}  // namespace tandem
