#include "tools/commands/schedule_comparison.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "planner/study/comparison.h"
#include "tools/cli/interrupt.h"
#include "tools/options/cluster_options.h"
#include "tools/options/scenario_options.h"
#include "tools/print/scenario_json.h"
#include "tools/print/sensitivity_report.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

void check_options(const Options& options, const GivenOptions& given) {
  refuse_given(options,
               {"trace", "picture", "report", "schedule-file", "sensitivity", "scenarios", "jitter",
                "straggler-rate", "threads"},
               "--{} is for one schedule");
  if (!options.words().empty()) refuse(options, "--schedule is not taken: the plan sets it");
  if (names_a_cluster(given) && !(options.has("width") && options.has("depth")))
    refuse(options, "give --width and --depth to compare schedules");
  if (!options.has("microbatches")) refuse(options, "--microbatches is missing");
}

double peak_activations(const SimulationResult& result) {
  double most = 0.0;
  for (const DeviceUse& use : result.devices) most = std::max(most, use.peak_activations);
  return most;
}

double bubble_of_period(const SimulationResult& result, std::int64_t batches) {
  const double ideal = to_seconds(result.ideal) / static_cast<double>(batches);
  return result.cycle.count() == 0 ? 0.0 : 1.0 - ideal / result.period_s();
}

void print_table(const std::vector<ComparedSchedule>& outcomes, std::int64_t batches) {
  std::set<WeightSemantics> others;  // than vanilla
  fmt::print("{:<20} {:>11} {:>11} {:>9} {:>8} {:>11} {:>9}  {}\n", "schedule", "a batch",
             "samples/s", "slower by", "bubble", "activations", "versions", "weights");
  for (const ComparedSchedule& one : outcomes) {
    if (!one.refusal.empty()) {
      fmt::print("{:<20} {}\n", one.schedule, one.refusal);
      continue;
    }
    std::int32_t versions = 1;
    for (const DeviceUse& use : one.result.devices)
      versions = std::max(versions, use.weight_versions);
    fmt::print("{:<20} {:>11} {:>11.4g} {:>7.1f} % {:>6.1f} % {:>11.4g} {:>9}  {}\n", one.schedule,
               print_duration(one.result.cycle / one.result.cycle_batches), one.samples_per_s(),
               one.samples_per_s() > 0.0
                   ? 100.0 * (outcomes.front().samples_per_s() / one.samples_per_s() - 1.0)
                   : 0.0,
               100.0 * bubble_of_period(one.result, batches), peak_activations(one.result),
               versions, short_name(one.prepared->scenario.weights));
    if (one.prepared->scenario.weights > WeightSemantics::vanilla)
      others.insert(one.prepared->scenario.weights);
  }
  for (const WeightSemantics weights : others) fmt::print("{}", weights_note(weights));
}

void print_ranges(const std::vector<FastestRange>& ranges) {
  fmt::print("\nfastest, by microbatches of a batch:\n");
  for (const FastestRange& range : ranges) {
    fmt::print(
        "  {:>5} to {:<5} {}\n", range.first, range.last,
        range.fastest.empty() ? "none can" : fmt::format("{}", fmt::join(range.fastest, ", ")));
  }
}

Json row_json(const ComparedSchedule& one, const ScenarioRequest& request, std::int64_t batches) {
  Json row{{"schedule", one.schedule}};
  if (!one.refusal.empty()) {
    row["refused"] = one.refusal;
    return row;
  }
  const Scenario& scenario = one.prepared->scenario;
  row["semantics"] = name(scenario.weights);
  row.update(result_json(request, *one.prepared, one.result, simulate_healthy(scenario, batches)));
  const auto bottlenecks = bottlenecks_of(scenario, one.result);
  row["bottlenecks"] = bottlenecks ? bottlenecks_json(*bottlenecks) : Json();
  return row;
}

/// `request`: of any of them, which differ in their schedules alone.
void print_as_json(const std::vector<ComparedSchedule>& outcomes, const ScenarioRequest& request,
                   std::int64_t batches, const std::vector<FastestRange>& ranges) {
  Json schedules = Json::array(), fastest = Json::array();
  for (const ComparedSchedule& one : outcomes) schedules.push_back(row_json(one, request, batches));
  for (const FastestRange& range : ranges) {
    fastest.push_back({{"first_microbatches", range.first},
                       {"last_microbatches", range.last},
                       {"schedules", range.fastest}});
  }
  const PreparedScenario& first = *outcomes.front().prepared;
  Json config = config_json(request, first);
  for (const char* own : {"schedule", "semantics"}) config.erase(own);
  print_result("simulate", config, assumptions_json(request, first),
               {{"schedules", std::move(schedules)}, {"fastest", std::move(fastest)}});
}

}  // namespace

int compare_schedules(const Options& options, const GivenOptions& given) {
  check_options(options, given);
  const std::int64_t microbatches = *given.microbatches, batches = given.batches;
  const std::vector<ScenarioRequest> requests = scenario_requests(given);
  const InterruptGuard interrupt(std::ranges::any_of(requests, searches)
                                     ? OnInterrupt::ends_by_itself
                                     : OnInterrupt::ends_at_next_step);
  const ScheduleComparison comparison(requests, batches, search_watch(interrupt.token()));
  const std::vector<ComparedSchedule> outcomes = comparison.at(microbatches);
  if (!outcomes.front().refusal.empty()) throw InputError(outcomes.front().refusal);
  const std::vector<FastestRange> ranges = comparison.ranges(microbatches);
  if (options.has("json")) {
    print_as_json(outcomes, requests.front(), batches, ranges);
  } else {
    print_table(outcomes, batches);
    print_ranges(ranges);
  }
  return 0;
}

}  // namespace tandem::tools
