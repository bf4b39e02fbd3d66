// tandem simulate: a plan, or a schedule with costs, → time, memory and bubbles.

#include "simulator/simulate.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/cli/interrupt.h"
#include "tools/cli/machine.h"
#include "tools/cli/malloc_options.h"
#include "tools/cli/output_file.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"
#include "tools/commands/schedule_comparison.h"
#include "tools/options/scenario.h"
#include "tools/options/uncertainty.h"
#include "tools/print/healthy_run.h"
#include "tools/print/near_fits.h"
#include "tools/print/report.h"
#include "tools/print/sensitivity_report.h"
#include "tools/print/simulation_report.h"
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

/// Whether the shape was left to us, and none fits.
bool chose_and_misses(const Options& options, const Scenario& scenario) {
  if (!scenario.use || options.has("depth") || options.has("replicas")) return false;
  for (const DeviceId device : ids(*scenario.memory)) {
    if (!scenario.fits(device)) return true;
  }
  return false;
}

void write_trace(const std::string& path, const Scenario& scenario, const Timeline& timeline) {
  TraceRun run{.timeline = &timeline, .label = {}, .memory = {}};
  if (scenario.memory && scenario.stash)
    run.memory = TraceMemory{.devices = *scenario.memory, .stash = *scenario.stash};
  const std::string config = scenario.config.dump(-1, ' ', false, Json::error_handler_t::replace);
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  write_chrome_trace(
      path, scenario.program, {&run, 1},
      {.tool = tool_name(), .about = {{"config", config}}, .stop = interrupt.token()});
}

}  // namespace

int run_simulate(const Arguments& arguments) {
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
  options.parse(arguments);
  keep_freed_memory();
  SimulationRequest request;
  request.batches = batches_of(options);
  if (names_several_schedules(options)) return compare_schedules(options, request.batches);
  if (options.has("trace")) check_can_write(options.text("trace"));
  if (options.has("report")) check_can_report(options.text("report"));
  request.record = options.has("picture") || options.has("trace") || options.has("report");
  const std::optional<UncertaintyRequest> uncertainty = uncertainty_of(options);
  Scenario scenario = make_scenario(options);
  request.activation_after_input = scenario.activation_after_input;
  if (request.record) check_size(scenario, options, request.batches);
  const SimulationResult result = simulate(scenario, request);
  std::optional<Sensitivities> sensitivities;
  if (options.has("sensitivity"))
    sensitivities = sensitivities_of(scenario, result, request.batches);
  const std::optional<Bottlenecks> bottlenecks =
      sensitivities ? sensitivities->bottlenecks : bottlenecks_of(scenario, result);
  const std::optional<SimulationResult> healthy = healthy_run(scenario, request.batches);
  std::optional<Spread> spread;
  if (uncertainty) spread = spread_of(scenario, *uncertainty, request.batches);
  if (options.has("trace")) write_trace(options.text("trace"), scenario, *result.timeline);
  if (options.has("report")) write_report(options, arguments, scenario, result, request);
  scenario.config["batches"] = request.batches;
  const auto exit_code = [&] { return scenario.search ? search_exit_code(*scenario.search) : 0; };
  if (options.has("json")) {
    Json json = result_json(scenario, result);
    if (healthy) json["healthy"] = healthy_json(scenario, result, *healthy);
    json["bottlenecks"] = bottlenecks ? bottlenecks_json(*bottlenecks) : Json();
    if (sensitivities) json["sensitivity"] = sensitivity_json(*sensitivities);
    if (spread) json["uncertainty"] = spread_json(*spread);
    print_result("simulate", scenario.config, scenario.assumptions, std::move(json),
                 warnings_of(scenario, result));
    return exit_code();
  }
  if (options.has("picture"))
    print_as_it_is(stdout, picture(scenario.program, *result.timeline, picture_options()));
  print_summary(scenario, result, request.batches, difference_line(scenario, result, healthy));
  if (sensitivities) {
    print_sensitivity(*sensitivities, result);
  } else if (bottlenecks) {
    print_bottlenecks(*bottlenecks);
  }
  if (spread) print_spread(*spread);
  if (chose_and_misses(options, scenario)) {
    const std::vector<std::string> fits = near_fits(options, kMostNearFits);
    fmt::print("\nno shape fits{}\n",
               fits.empty() ? "; no similar shape does" : "; these options fit instead:");
    for (const std::string& line : fits) fmt::print("  {}\n", line);
  }
  return exit_code();
}

}  // namespace tandem::tools
