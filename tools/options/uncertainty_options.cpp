#include "tools/options/uncertainty_options.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/percent.h"
#include "tools/options/perturbation_options.h"

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

std::optional<UncertaintyRequest> uncertainty_of(const Options& options) {
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
  return request;
}

int threads_of(const Options& options) {
  return static_cast<int>(options.integer("threads", 1, kMostScenarioThreads, cores()));
}

bool is_of_scenarios(const Options& options, std::string_view flag) {
  return flag == "seed" && options.has("scenarios");
}

}  // namespace tandem::tools
