// tandem simulate: a plan, or plain costs, → time, memory and bubbles.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/lower.h"
#include "core/verify.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/schedule_options.h"
#include "tools/simulation_report.h"
#include "tools/terminal.h"
#include "traces/picture.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostBatches = 1'000'000'000'000;
constexpr double kMostRecordedOps = 20e6;

Duration half(Duration whole) { return whole / 2; }

/// The plain costs of the command line: those of one stage, held by every stage.
StageTimes plain_times(const Options& options, const Schedule& schedule) {
  if (!options.has("forward")) throw UsageError("simulate: --forward is missing: give a plan, --costs, or plain costs");
  StageTimes times;
  times.forward = options.duration("forward");
  const bool halves = options.has("backward-input") || options.has("backward-weight");
  if (options.has("backward") == halves) {
    throw UsageError("simulate: give either --backward or --backward-input and --backward-weight");
  }
  if (halves) {
    times.backward_input = options.duration("backward-input");
    times.backward_weight = options.duration("backward-weight");
    times.backward = times.backward_input + times.backward_weight;
  } else {
    times.backward = options.duration("backward");
    times.backward_input = half(times.backward);
    times.backward_weight = times.backward - times.backward_input;
  }
  times.recompute = options.duration("recompute-time", times.forward);
  times.update = options.duration("update");
  times.reduce = options.duration("reduce");
  const std::size_t chunks = schedule.placement.stages() / schedule.placement.devices;
  if (options.choice("costs-per", {"stage", "device"}) == "device" && chunks > 1) {
    const auto share = static_cast<std::int64_t>(chunks);
    for (Duration* time : {&times.forward, &times.backward, &times.backward_input, &times.backward_weight,
                           &times.recompute, &times.update, &times.reduce}) {
      *time /= share;
    }
  }
  return times;
}

void add_options(Options& options) {
  options.words("PLAN", 0, 1);
  options.value("schedule", "NAME", "name of a schedule (tandem schedule --list)");
  add_schedule_options(options);
  options.value("forward", "T", "time of a stage's forward for one microbatch")
      .value("backward", "T", "time of its whole backward")
      .value("backward-input", "T", "time of its input-gradient half")
      .value("backward-weight", "T", "time of its weight-gradient half")
      .value("transfer", "T", "time on every edge between different devices (default 0)")
      .value("recompute-time", "T", "time of a recomputation (default: forward)")
      .value("update", "T", "time of a stage's update (default 0)")
      .value("reduce", "T", "time of a stage's gradient sum over replicas (default 0)")
      .value("costs-per", "WHAT", "stage|device: what the times above are of (default stage)")
      .value("costs", "FILE", "times for each stage, from a file")
      .value("profile", "FILE", "for a plan: measured costs, instead of the plan's own profile")
      .value("lanes", "KIND", "shared|ideal: whether a transfer occupies a link (default shared)")
      .value("batches", "N", "length of the run (default 1)")
      .value("microbatch-size", "B", "samples of a microbatch (default 1)")
      .value("activation-bytes", "A", "what a stage holds for one microbatch from forward to backward")
      .value("weight-gradient-bytes", "G", "of it from input- to weight-gradient (default A)")
      .value("trace", "FILE", "write a Chrome trace (.json or .json.gz)")
      .flag("picture", "draw the timeline");
  for (const char* name : {"model", "cluster", "report", "schedule-file", "overlapped"}) options.absent(name);
}

}  // namespace

int run_simulate(const Arguments& arguments) {
  Options options("simulate", "[PLAN] [options]",
                  "Predicts time, memory and bubbles of a plan, or of a schedule with plain costs.");
  add_options(options);
  options.parse(arguments);
  if (!options.has("schedule")) throw UsageError("simulate: give a plan, or --schedule NAME with plain costs");
  const ScheduleTraits& traits = find_schedule(options.text("schedule"));
  const Schedule schedule = make_schedule(traits, schedule_request(options, traits));
  const bool ideal = options.choice("lanes", {"shared", "ideal"}) == "ideal";
  const Program program = lower(schedule, ideal ? TransferLanes::ideal : TransferLanes::shared);
  const StageCosts costs =
      uniform_costs(program.placement().parts(), plain_times(options, schedule), options.duration("transfer"));
  const CostTable table = price(program, cost_model(program.placement(), costs));
  SimulationRequest request;
  request.batches = options.integer("batches", 1, kMostBatches, 1);
  request.record = options.has("picture") || options.has("trace");
  if (request.record && static_cast<double>(program.size()) * static_cast<double>(request.batches) > kMostRecordedOps) {
    throw InputError("a picture or a trace of so many ops is too large: fewer --batches");
  }
  const SimulationResult result = simulate(program, table, request);
  if (options.has("picture")) fmt::print("{}", picture(program, *result.timeline, picture_options()));
  print_summary(program, result, request.batches);
  return 0;
}

}  // namespace tandem::tools
