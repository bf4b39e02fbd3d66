// tandem simulate: a plan, or a schedule with costs, → time, memory and bubbles.

#include "simulator/simulate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "planner/study/comparison.h"
#include "tools/cli/for_each.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/machine.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"
#include "tools/options/perturbation_options.h"
#include "tools/options/scenario_options.h"
#include "tools/print/near_fits.h"
#include "tools/print/report.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/sensitivity_report.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"
#include "traces/chrome/chrome_trace.h"
#include "traces/picture.h"

namespace tandem::tools {

namespace {

constexpr double kMostRecordedOps = 20e6, kMostReportedOps = 500e3;
constexpr std::size_t kMostNearFits = 6;

void check_size(const Scenario& scenario, const Options& options, std::int64_t batches) {
  const auto size = static_cast<double>(scenario.program.size());
  const double most = options.has("report") ? kMostReportedOps : kMostRecordedOps;
  if (size * static_cast<double>(batches) <= most) return;
  throw InputError(fmt::format("{} of {} batches is too large: at most {:.0f}",
                               options.has("report") ? "a report" : "a picture or a trace", batches,
                               most / size));
}

void write_trace(const std::string& path, const Scenario& scenario, const Json& config,
                 const Timeline& timeline) {
  TraceRun run{.timeline = &timeline, .label = {}, .memory = {}};
  if (scenario.memory && scenario.stash)
    run.memory =
        TraceMemory{.devices = *scenario.memory, .stash = *scenario.stash, .held = scenario.held};
  const std::string text = config.dump(-1, ' ', false, Json::error_handler_t::replace);
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  write_chrome_trace(path, scenario.program, {&run, 1},
                     {.tool = tool_name(), .about = {{"config", text}}, .stop = interrupt.token()});
}

/// All that a simulation was asked for and says.
struct Answer {
  ScenarioRequest request;
  PreparedScenario prepared;
  SimulationRequest simulated;
  SimulationResult result = {};
  std::optional<Sensitivities> sensitivities = {};
  std::optional<Bottlenecks> bottlenecks = {};
  std::optional<SimulationResult> healthy = {};
  std::optional<Spread> spread = {};
};

Answer answer_of(const Options& options, const GivenOptions& given) {
  const std::optional<UncertaintyRequest> uncertainty = uncertainty_of(options);
  const bool record = options.has("picture") || options.has("trace") || options.has("report");
  const std::int64_t batches = given.batches;
  ScenarioRequest request = scenario_request(given);
  PreparedScenario prepared = prepare(request);
  Answer answer{.request = std::move(request),
                .prepared = std::move(prepared),
                .simulated = {.batches = batches, .record = record}};
  const Scenario& scenario = answer.prepared.scenario;
  if (record) check_size(scenario, options, batches);
  answer.result = simulate(scenario, answer.simulated);
  if (options.has("sensitivity")) {
    answer.sensitivities = sensitivities_of(scenario, answer.result, batches);
    answer.bottlenecks = answer.sensitivities->bottlenecks;
  } else {
    answer.bottlenecks = bottlenecks_of(scenario, answer.result);
  }
  answer.healthy = simulate_healthy(scenario, batches);
  if (uncertainty) {
    const int threads = threads_of(options);
    answer.spread = spread_of(
        scenario, *uncertainty, batches,
        [threads](std::size_t count, const auto& work) { for_each_on(threads, count, work); });
  }
  return answer;
}

void print_json(const Answer& answer) {
  const PreparedScenario& prepared = answer.prepared;
  Json json = result_json(answer.request, prepared, answer.result, answer.healthy);
  json["bottlenecks"] = answer.bottlenecks ? bottlenecks_json(*answer.bottlenecks) : Json();
  if (answer.sensitivities) json["sensitivity"] = sensitivity_json(*answer.sensitivities);
  if (answer.spread) json["uncertainty"] = spread_json(*answer.spread);
  Json config = config_json(answer.request, prepared);
  config["batches"] = answer.simulated.batches;
  print_result("simulate", std::move(config), assumptions_json(answer.request, prepared),
               std::move(json), warnings_of(answer.request, prepared, answer.result));
}

void print_near_fits(const ClusterSetup& setup) {
  std::vector<std::string> fits = near_fits(setup);
  fits.resize(std::min(fits.size(), kMostNearFits));
  fmt::print("\nno shape fits{}\n",
             fits.empty() ? "; no similar shape does" : "; these options fit instead:");
  for (const std::string& line : fits) fmt::print("  {}\n", line);
}

void print_text(const Answer& answer, bool with_picture) {
  const PreparedScenario& prepared = answer.prepared;
  const Scenario& scenario = prepared.scenario;
  if (with_picture)
    print_as_it_is(stdout, picture(scenario.program, *answer.result.timeline, picture_options()));
  print_summary(answer.request, prepared, answer.result, answer.simulated.batches, answer.healthy);
  if (answer.sensitivities) {
    print_sensitivity(*answer.sensitivities, answer.result);
  } else if (answer.bottlenecks) {
    print_bottlenecks(*answer.bottlenecks);
  }
  if (answer.spread) print_spread(*answer.spread);
  // Where the shape was left to us, and none fits.
  if (prepared.cluster && !prepared.cluster->request.depth && !scenario.fits())
    print_near_fits(*prepared.cluster);
}

// ---- --schedule A,B,C: several schedules at the same costs, and which is the fastest ----

/// Those of a comparison, by names.
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
      fmt::print("{:<20} {}\n", schedule_in_table(one.schedule), one.refusal);
      continue;
    }
    const auto& devices = one.result.devices;
    const auto most_held = std::ranges::max(devices, {}, &DeviceUse::peak_activations);
    const auto most_versions = std::ranges::max(devices, {}, &DeviceUse::weight_versions);
    fmt::print("{:<20} {:>11} {:>11.4g} {:>7.1f} % {:>6.1f} % {:>11.4g} {:>9}  {}\n",
               schedule_in_table(one.schedule),
               print_duration(one.result.cycle / one.result.cycle_batches), one.samples_per_s(),
               one.samples_per_s() > 0.0
                   ? 100.0 * (outcomes.front().samples_per_s() / one.samples_per_s() - 1.0)
                   : 0.0,
               100.0 * bubble_of_period(one.result, batches), most_held.peak_activations,
               most_versions.weight_versions, short_name(one.prepared->scenario.weights));
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
  const auto schedule_json = [&](const ComparedSchedule& one) {
    return row_json(one, request, batches);
  };
  const auto range_json = [](const FastestRange& range) -> Json {
    return {{"first_microbatches", range.first},
            {"last_microbatches", range.last},
            {"schedules", range.fastest}};
  };
  const PreparedScenario& first = *outcomes.front().prepared;
  Json config = config_json(request, first);
  for (const char* own : {"schedule", "semantics"}) config.erase(own);
  print_result("simulate", config, assumptions_json(request, first),
               {{"schedules", array_of(outcomes, schedule_json)},
                {"fastest", array_of(ranges, range_json)}});
}

/// Plain costs are those of a device, unless --costs-per says otherwise, so that schedules of one
/// and of several stages a device do the same work. A schedule that can't serve the request is
/// listed with the reason.
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

}  // namespace

Options options_of_simulate() {
  Options options(
      "simulate", "[PLAN] [options]",
      "Predicts time, memory and bubbles of a plan, or of a schedule with plain costs.");
  add_scenario_options(options);
  options.group("Pictures and files")
      .output("trace", "FILE", "write the timeline as a Chrome trace (.json or .json.gz)")
      .output(
          "report", "FILE",
          "write timeline, memory, table and what-ifs as a page (.html), or as a picture (.svg)")
      .flag("picture", "draw the timeline")
      .flag("sensitivity",
            "name the bottleneck, and what 1 % faster devices, links, ops and layers would gain");
  add_uncertainty_options(options);
  return options;
}

int run_simulate(const Options& options) {
  keep_freed_memory();
  const GivenOptions given = given_options(options);
  if (names_several_schedules(options)) return compare_schedules(options, given);
  if (options.has("trace")) check_can_write(options.text("trace"));
  if (options.has("report")) check_can_report(options.text("report"));
  const Answer answer = answer_of(options, given);
  const PreparedScenario& prepared = answer.prepared;
  if (options.has("trace")) {
    write_trace(options.text("trace"), prepared.scenario, config_json(answer.request, prepared),
                *answer.result.timeline);
  }
  if (options.has("report")) {
    write_report(options.text("report"), options.command_line(), answer.request, prepared,
                 answer.result, answer.simulated);
  }
  if (options.has("json")) {
    print_json(answer);
  } else {
    print_text(answer, options.has("picture"));
  }
  return prepared.search ? search_exit_code(*prepared.search) : 0;
}

}  // namespace tandem::tools
