#include "tools/print/uncertainty_report.h"

#include <cmath>

#include <fmt/format.h>

namespace tandem::tools {

void print_spread(const Spread& spread) {
  const Uncertainty& what = spread.request.what;
  fmt::print("\n{} scenarios from seed {}: ops jitter by {:.4g} %", spread.request.scenarios,
             what.seed, 100.0 * what.jitter);
  if (what.straggler_rate > 0.0) {
    fmt::print("; each device {:.4g} times as slow with a chance of {:.4g} %",
               what.straggler_factor, 100.0 * what.straggler_rate);
  }
  if (spread.batches > 1) fmt::print("; means over {} batches", spread.batches);
  const auto time = [&](double seconds) {
    return fmt::format("{} ({:+.2f} %)", print_duration(Duration(std::llround(seconds * 1e9))),
                       spread.plain_s > 0.0 ? 100.0 * (seconds / spread.plain_s - 1.0) : 0.0);
  };
  fmt::print("\na batch of the endless run: P50 {}, P95 {}, P99 {}\n",
             time(spread.percentile_s(50)), time(spread.percentile_s(95)),
             time(spread.percentile_s(99)));
  fmt::print("mean {}, worst {}; without noise {}\n", time(spread.mean_s()),
             time(spread.sorted_s.back()),
             print_duration(Duration(std::llround(spread.plain_s * 1e9))));
}

Json spread_json(const Spread& spread) {
  const Uncertainty& what = spread.request.what;
  return {{"scenarios", spread.request.scenarios},
          {"seed", what.seed},
          {"jitter", what.jitter},
          {"straggler_rate", what.straggler_rate},
          {"straggler_factor", what.straggler_factor},
          {"batches", spread.batches},
          {"warm_up_batches", Scenarios::kWarmUp},
          {"without_noise_s", spread.plain_s},
          {"p50_s", spread.percentile_s(50)},
          {"p95_s", spread.percentile_s(95)},
          {"p99_s", spread.percentile_s(99)},
          {"mean_s", spread.mean_s()},
          {"least_s", spread.sorted_s.front()},
          {"worst_s", spread.sorted_s.back()}};
}

}  // namespace tandem::tools
