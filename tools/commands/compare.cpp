// tandem compare SIMULATED MEASURED: how well the prediction held, op by op.

#include "traces/compare.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

/// The one timeline of a file whose clock is `clock`; of a file with a single timeline, that one.
TimelineRun pick(const std::string& path, Clock clock) {
  TimelineFile file = read_timeline({path});
  if (file.runs.size() == 1) return std::move(file.runs.front());
  const auto found =
      std::ranges::find_if(file.runs, [&](const TimelineRun& run) { return run.clock == clock; });
  if (found != file.runs.end()) return std::move(*found);
  throw InputError(fmt::format("{}: holds no {} timeline", path,
                               clock == Clock::simulated ? "simulated" : "measured"));
}

/// Two predictions, or two measurements, may be compared; a pair the wrong way round is a mistake.
Comparison compare_files(const std::vector<std::string>& paths, const CompareOptions& how) {
  const TimelineRun simulated = pick(paths[0], Clock::simulated);
  const TimelineRun measured = pick(paths[1], Clock::measured);
  if (simulated.clock == Clock::measured && measured.clock == Clock::simulated) {
    throw InputError(fmt::format(
        "{} is measured and {} is simulated: give them the other way round", paths[0], paths[1]));
  }
  Comparison comparison = compare(simulated.records, measured.records, how);
  if (comparison.matched > 0) return comparison;
  throw InputError(fmt::format("{} and {} have no op in common: are they of the same program?",
                               paths[0], paths[1]));
}

Json as_json(const Compared& compared) {
  return {{"simulated_s", to_seconds(compared.simulated)},
          {"measured_s", to_seconds(compared.measured)},
          {"error_percent", or_null(compared.error_percent())}};
}

Json device_json(const DeviceComparison& row) {
  return {
      {"device", index(row.device)}, {"busy", as_json(row.busy)}, {"bubble", as_json(row.bubble)}};
}

Json kind_json(const KindComparison& row) {
  return {{"kind", name(row.kind)},
          {"count", row.count},
          {"total", as_json(row.total)},
          {"mean", as_json(row.mean)},
          {"median_error_s", to_seconds(row.median_error)},
          {"percentile_95_error_s", to_seconds(row.percentile_95_error)}};
}

Json op_json(const OpComparison& row) {
  return {{"kind", name(row.measured.kind)},
          {"device", index(row.measured.device)},
          {"stage", index(row.measured.replica)},
          {"microbatch", row.measured.microbatch},
          {"duration", as_json(row.duration())}};
}

Json as_json(const Comparison& comparison) {
  return {{"makespan", as_json(comparison.makespan)},
          {"step", comparison.step ? as_json(*comparison.step) : Json()},
          {"batches", comparison.batches},
          {"warm_up_batches", comparison.warm_up_batches},
          {"matched", comparison.matched},
          {"only_simulated", comparison.only_simulated.size()},
          {"only_measured", comparison.only_measured.size()},
          {"devices", array_of(comparison.devices, device_json)},
          {"kinds", array_of(comparison.kinds, kind_json)},
          {"worst", array_of(comparison.worst, op_json)}};
}

/// Why a prediction that may be off by `most` percent is not good enough, if it isn't. The step
/// time decides, or where there is none the makespan.
std::optional<std::string> miss(const Comparison& comparison, double most) {
  if (!comparison.same_ops()) return "the two timelines do not hold the same ops";
  const Compared& whole = comparison.step ? *comparison.step : comparison.makespan;
  const std::optional<double> error = whole.error_percent();
  if (error && std::abs(*error) <= most) return std::nullopt;
  return fmt::format("the predicted {} is off by {}, more than {} %",
                     comparison.step ? "step time" : "makespan",
                     error ? fmt::format("{:+.2f} %", *error) : "an unknown part", most);
}

}  // namespace

Options options_of_compare() {
  Options options(
      "compare", "SIMULATED MEASURED [options]",
      "Compares a simulated timeline with a measured one: whole run, devices, op kinds, ops.");
  options.words("SIMULATED and MEASURED", 2, 2);
  options.value("warm-up", "N", "batches left out of all but the makespan (default 1)")
      .value("worst", "N", "single ops listed (default 10)")
      .value("fail-over", "PERCENT", "exit 6 when the step time is off by more");
  return options;
}

int run_compare(const Options& options) {
  const CompareOptions how{
      .warm_up_batches = options.integer("warm-up", 0, 1'000'000, 1),
      .worst = static_cast<std::size_t>(options.integer("worst", 0, 1'000'000, 10))};
  const double most = options.number("fail-over", 0.0, 1e9, 0.0);
  const Comparison comparison = compare_files(options.words(), how);
  const bool judged = options.has("fail-over");
  const std::optional<std::string> reason = judged ? miss(comparison, most) : std::nullopt;
  if (options.has("json")) {
    Json result = as_json(comparison);
    result["good"] = judged ? Json(!reason) : Json(nullptr);
    print_result("compare", {{"simulated", options.words()[0]}, {"measured", options.words()[1]}},
                 Json::object(), std::move(result));
  } else {
    fmt::print("{}", print_comparison(comparison));
  }
  if (!reason) return 0;
  // The comparison is the result, and the one object of --json, also when it is a bad one.
  std::fflush(stdout);
  return report_failure(ExitCode::differences, *reason, {}, false);
}

}  // namespace tandem::tools
