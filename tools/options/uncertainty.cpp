#include "tools/options/uncertainty.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/text/percent.h"
#include "tools/options/perturbation.h"
#include "tools/options/schedule_options.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostScenarios = 1'000'000;
constexpr std::int64_t kMostScenarioThreads = 1024;

/// "5%" → 0.05, from 0 to `most`. `text` is the option's value, or what of it is a share.
double share_of(const Options& options, const std::string& name, std::string_view text,
                double most) {
  const std::optional<double> share = parse_percent(text);
  if (!share || *share > most) {
    throw UsageError(
        fmt::format("tandem {}: --{}: expected a share from 0% to {:.0f}%, found \"{}\"",
                    options.command(), name, 100.0 * most, text));
  }
  return *share;
}

std::int64_t cores() {
  return std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, kMostScenarioThreads);
}

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

void add_uncertainty_options(Options& options) {
  options.group("Uncertainty")
      .value("scenarios", "N",
             "simulate this many runs with random times, from --seed: percentiles of a batch")
      .value("jitter", "J%", "with --scenarios: standard deviation of the time of each op")
      .value("straggler-rate", "R%:F",
             "with --scenarios: each device takes F times as long with a chance of R%: 1%:1.5x")
      .value(
          "threads", "N",
          "with --scenarios: threads to use; answers do not depend on them (default: all cores)");
}

std::optional<UncertaintyRequest> uncertainty_of(Options& options) {
  if (!options.has("scenarios")) {
    for (const char* name : {"jitter", "straggler-rate", "threads"}) {
      if (options.has(name))
        throw UsageError(
            fmt::format("tandem {}: --{} is for --scenarios", options.command(), name));
    }
    return std::nullopt;
  }
  UncertaintyRequest request;
  request.scenarios = options.integer("scenarios", 1, kMostScenarios, 1);
  request.threads = options.integer("threads", 1, kMostScenarioThreads, cores());
  constexpr std::int64_t kMostSeed = 9'000'000'000'000'000'000;
  request.what.seed = static_cast<std::uint64_t>(options.integer("seed", 0, kMostSeed, 1));
  if (options.has("jitter"))
    request.what.jitter = share_of(options, "jitter", options.text("jitter"), noise::Jitter::kMost);
  if (options.has("straggler-rate")) {
    const std::string text = options.text("straggler-rate");
    const std::size_t colon = std::min(text.find(':'), text.size());
    request.what.straggler_rate =
        share_of(options, "straggler-rate", std::string_view(text).substr(0, colon), 1.0);
    request.what.straggler_factor = factor_of(
        options, "straggler-rate", std::string_view(text).substr(std::min(colon + 1, text.size())));
  }
  const bool own_seed = options.has("schedule") && !options.has("schedule-file") &&
                        takes(find_schedule(options.text("schedule")), "seed");
  if (!own_seed) options.unset("seed");
  return request;
}

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
