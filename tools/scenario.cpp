#include "tools/scenario.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/io/read.h"
#include "core/lower.h"
#include "core/verify.h"
#include "simulator/cost/stage_costs.h"
#include "tools/plan_setup.h"
#include "tools/schedule_file.h"
#include "tools/schedule_options.h"

namespace tandem::tools {

namespace {

constexpr const char* kPlainTimes[] = {
    "forward", "backward", "backward-input", "backward-weight", "recompute-time",
    "update",  "reduce",   "norm",           "transfer",        "overlapped"};

/// The plain costs of the command line: those of one stage, held by every stage.
StageTimes plain_times(const Options& options, const Schedule& schedule) {
  if (!options.has("forward")) {
    throw UsageError(
        "tandem simulate: --forward is missing: give a plan, --costs FILE, or plain costs");
  }
  StageTimes times;
  times.forward = options.duration("forward");
  const bool halves = options.has("backward-input") || options.has("backward-weight");
  const bool both = options.has("backward-input") && options.has("backward-weight");
  if (options.has("backward") == halves || halves != both) {
    throw UsageError(
        "tandem simulate: give either --backward, or --backward-input and --backward-weight");
  }
  if (halves) {
    times.backward_input = options.duration("backward-input");
    times.backward_weight = options.duration("backward-weight");
    times.backward = times.backward_input + times.backward_weight;
  } else {
    times.backward = options.duration("backward");
    times.backward_input = times.backward / 2;
    times.backward_weight = times.backward - times.backward_input;
  }
  times.recompute = options.duration("recompute-time", times.forward);
  times.update = options.duration("update");
  times.reduce = options.duration("reduce");
  if (options.has("overlapped")) times.overlapped = options.duration("overlapped");
  const std::size_t chunks = chunks_of(schedule.placement)[DeviceId{}];
  if (options.choice("costs-per", {"stage", "device"}) == "device" && chunks > 1) {
    for (Duration* time :
         {&times.forward, &times.backward, &times.backward_input, &times.backward_weight,
          &times.recompute, &times.update, &times.reduce}) {
      *time /= static_cast<std::int64_t>(chunks);
    }
    if (times.overlapped) *times.overlapped /= static_cast<std::int64_t>(chunks);
  }
  return times;
}

/// Bytes that devices hold when only activations have a size.
Table<DeviceId, MemoryByClass> activation_memory(const Program& program,
                                                 const Table<StageId, HeldActivation>& held) {
  Table<DeviceId, MemoryByClass> memory;
  constexpr double kMost = 0x1p60;
  for (const double bytes : peak_held(program, held)) {
    if (bytes > kMost) {
      throw InputError(
          fmt::format("a device would hold activations of {:.3g} bytes: expected at most {:.3g}",
                      bytes, kMost));
    }
    memory.push_back({});
    memory[id_at<DeviceId>(memory.size() - 1)].activations =
        static_cast<Bytes>(std::llround(bytes));
  }
  return memory;
}

void set_plain_memory(const Options& options, Scenario& scenario) {
  const std::optional<Bytes> all = options.bytes("activation-bytes");
  const std::optional<Bytes> after = options.bytes("weight-gradient-bytes");
  if (after && (!all || *after > *all)) {
    throw UsageError(
        "tandem simulate: --weight-gradient-bytes is a part of --activation-bytes, at most all of "
        "it");
  }
  if (!all) return;
  const auto bytes = static_cast<double>(*all);
  const auto kept = static_cast<double>(after.value_or(*all));
  scenario.activation_after_input = bytes > 0 ? kept / bytes : 1.0;
  scenario.memory = activation_memory(
      scenario.program,
      Table<StageId, HeldActivation>(scenario.program.placement().stages(), {bytes, kept}));
}

StageCosts costs_from_file(const Options& options, const std::string& path, Scenario& scenario) {
  for (const char* name : kPlainTimes) {
    if (options.has(name))
      throw UsageError(fmt::format("tandem simulate: --{} and --costs exclude each other", name));
  }
  for (const char* name : {"costs-per", "activation-bytes", "weight-gradient-bytes"}) {
    if (!options.has(name)) continue;
    throw UsageError(fmt::format("tandem simulate: --{} and --costs exclude each other", name));
  }
  const StageCostFile file = read_costs(path);
  const Placement& placement = scenario.program.placement();
  if (file.stages.size() != placement.parts()) {
    throw InputError(fmt::format("{}: the schedule has {} stages, the file has {} costs", path,
                                 placement.parts(), file.stages.size()));
  }
  StageCosts costs{.parts = {}, .transfer = file.transfer, .reduce_tied = {}, .norm = file.norm};
  Table<StageId, HeldActivation> held(placement.stages(), {0.0, 0.0});
  bool sized = false;
  for (const StageCostRow& row : file.stages) {
    costs.parts.push_back({.forward = row.forward,
                           .recompute = row.recompute,
                           .backward = row.backward,
                           .backward_input = row.backward_input,
                           .backward_weight = row.backward_weight,
                           .update = row.update,
                           .reduce = file.reduce,
                           .overlapped = row.overlapped});
    sized = sized || row.activation.has_value();
  }
  for (const StageId stage : ids(held)) {
    const StageCostRow& row = file.stages[index(placement.part[stage])];
    const Bytes all = row.activation.value_or(0);
    held[stage] = {static_cast<double>(all),
                   static_cast<double>(row.weight_gradient.value_or(all))};
  }
  if (sized) scenario.memory = activation_memory(scenario.program, held);
  return costs;
}

Json as_json(const ScheduleRequest& request) {
  return {{"devices", request.devices},
          {"microbatches", request.microbatches},
          {"width", request.width},
          {"chunks", request.chunks},
          {"group", request.group},
          {"extra_in_flight", request.extra_in_flight},
          {"replicas", request.replicas},
          {"directions", request.directions},
          {"vertical_sync", request.vertical_sync},
          {"recompute", name(request.recompute)},
          {"global_norm", request.global_norm}};
}

/// What its text says of devices and microbatches is not said again.
Schedule schedule_of_file(const Options& options) {
  for (const char* name :
       {"schedule", "devices", "microbatches", "width", "recompute", "chunks", "group",
        "extra-in-flight", "replicas", "directions", "waves", "vertical-sync", "clip"}) {
    if (options.has(name))
      throw UsageError(fmt::format("tandem simulate: the schedule file says --{} already", name));
  }
  return read_schedule(options.text("schedule-file"));
}

/// Sets the request too; of a file as far as the text tells.
Schedule schedule_of_names(const Options& options, ScheduleRequest& request) {
  if (options.has("schedule-file")) {
    Schedule schedule = schedule_of_file(options);
    request.devices = schedule.placement.devices;
    request.microbatches = schedule.microbatches;
    request.width = schedule.width;
    return schedule;
  }
  if (!options.has("schedule"))
    throw UsageError("tandem simulate: give a plan, or --schedule NAME with costs");
  const ScheduleTraits& traits = find_schedule(options.text("schedule"));
  request = schedule_request(options, traits);
  return make_schedule(traits, request);
}

/// Refuses a program that would compute something else than its schedule's batches.
void check_right(const Program& program) {
  const std::vector<Violation> violations = verify(program);
  if (violations.empty()) return;
  std::string text = fmt::format("schedule \"{}\" is not right:", program.schedule());
  for (const Violation& violation : violations)
    text += fmt::format("\n  {}: {}", name(violation.kind), violation.message);
  throw InfeasibleError(text);
}

Scenario from_names(const Options& options, TransferLanes lanes) {
  if (options.has("profile")) {
    throw UsageError("tandem simulate: --profile is for a plan, which says what the layers are");
  }
  if (options.has("link-rate")) {
    throw UsageError(
        "tandem simulate: --link-rate is for a plan, which says how many bytes are sent: give "
        "--transfer");
  }
  ScheduleRequest request;
  Schedule schedule = schedule_of_names(options, request);
  Program program = lower(schedule, lanes);
  if (options.has("schedule-file"))
    check_right(lanes == TransferLanes::shared ? program : lower(schedule));
  Scenario scenario{.schedule = std::move(schedule),
                    .program = std::move(program),
                    .costs = {},
                    .memory = {},
                    .capacity = options.bytes("memory"),
                    .stash = {},
                    .config = {},
                    .assumptions = {}};
  scenario.microbatch_size =
      static_cast<std::int32_t>(options.integer("microbatch-size", 1, 1'000'000, 1));
  scenario.config = {{"schedule", scenario.schedule.name},
                     {"microbatch_size", scenario.microbatch_size}};
  scenario.config.update(as_json(request));
  const Placement& placement = scenario.program.placement();
  StageCosts costs;
  if (options.has("costs")) {
    costs = costs_from_file(options, options.text("costs"), scenario);
    scenario.config["costs"] = options.text("costs");
  } else {
    const StageTimes times = plain_times(options, scenario.schedule);
    costs = uniform_costs(placement.parts(), times, options.duration("transfer"));
    costs.norm = options.duration("norm");
    set_plain_memory(options, scenario);
    for (const char* name : kPlainTimes) {
      if (options.has(name))
        scenario.config[fmt::format("{}_s", name)] = to_seconds(options.duration(name));
    }
  }
  scenario.costs = price(scenario.program, cost_model(placement, std::move(costs)));
  return scenario;
}

Scenario from_plan(const Options& options, TransferLanes lanes) {
  const std::string& path = options.words()[0];
  for (const char* name :
       {"schedule", "schedule-file", "devices", "microbatches", "width", "recompute", "chunks",
        "group", "extra-in-flight", "replicas", "directions", "waves", "vertical-sync", "costs",
        "costs-per", "microbatch-size", "activation-bytes", "weight-gradient-bytes"}) {
    if (options.has(name))
      throw UsageError(fmt::format("tandem simulate: the plan says --{} already", name));
  }
  for (const char* name : kPlainTimes) {
    if (options.has(name))
      throw UsageError(
          fmt::format("tandem simulate: a plan has measured costs: --{} is not taken", name));
  }
  PreparedPlan prepared = prepare_plan(path, global_norm(options));
  const Plan& plan = prepared.plan;
  const Profile profile = profile_of(path, plan, options.text("profile"));
  const StageCosts costs = costs_of(plan, profile, options.rate("link-rate"));
  Table<DeviceId, MemoryByClass> memory = planned_memory(prepared);
  Program program = lanes == TransferLanes::shared ? std::move(prepared.program)
                                                   : lower(prepared.schedule, lanes);
  Scenario scenario{.schedule = std::move(prepared.schedule),
                    .program = std::move(program),
                    .costs = {},
                    .microbatch_size = plan.microbatch_size,
                    .memory = std::move(memory),
                    .capacity = options.bytes("memory"),
                    .stash = Table<StageId, Bytes>(prepared.bytes.size()),
                    .config = {},
                    .assumptions = {}};
  for (const StageId stage : ids(prepared.bytes))
    (*scenario.stash)[stage] = prepared.bytes[stage][SlotKind::stash];
  scenario.costs = price(scenario.program, cost_model(scenario.program.placement(), costs));
  scenario.config = {{"plan", path},
                     {"model", plan.model.name},
                     {"schedule", plan.schedule},
                     {"microbatch_size", plan.microbatch_size}};
  scenario.config.update(as_json(schedule_request(plan)));
  if (options.has("link-rate")) scenario.config["link_bytes_per_s"] = *options.rate("link-rate");
  scenario.assumptions["profile"] = {
      {"machine", profile.machine}, {"date", profile.date}, {"command", profile.command}};
  return scenario;
}

}  // namespace

void add_scenario_options(Options& options) {
  options.words("PLAN", 0, 1);
  options
      .value("schedule", "NAME",
             "name of a schedule (tandem schedule --list), or several, A,B,C, to compare")
      .value("schedule-file", "FILE",
             "a schedule in tandem's notation or PyTorch's CSV, instead of a name");
  add_schedule_options(options);
  options.value("forward", "T", "time of a stage's forward for one microbatch")
      .value("backward", "T", "time of its whole backward")
      .value("backward-input", "T", "time of its input-gradient half")
      .value("backward-weight", "T", "time of its weight-gradient half")
      .value("transfer", "T", "time on every edge between different devices (default 0)")
      .value("recompute-time", "T", "time of a recomputation (default: forward)")
      .value("update", "T", "time of a stage's update (default 0)")
      .value("reduce", "T", "time of a stage's gradient sum over replicas (default 0)")
      .value("overlapped", "T",
             "time of a forward and a backward issued as one unit (default: their sum)")
      .value("norm", "T", "time of the norm of all gradients (default 0)")
      .value("costs-per", "WHAT", "stage|device: what the times above are of (default stage)")
      .value("costs", "FILE", "times for each stage, from a file")
      .value("link-rate", "RATE", "for a plan: links between devices this fast, such as 1Gb/s")
      .value("profile", "FILE", "for a plan: measured costs, instead of the plan's own profile")
      .value("lanes", "KIND", "shared|ideal: whether a transfer occupies a link (default shared)")
      .value("microbatch-size", "B", "samples of a microbatch (default 1)")
      .value("activation-bytes", "A",
             "what a stage holds for one microbatch from forward to backward")
      .value("weight-gradient-bytes", "G", "of it from input- to weight-gradient (default A)")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB");
  for (const char* name : {"model", "cluster", "report"}) options.absent(name);
}

Scenario make_scenario(const Options& options) {
  const bool ideal = options.choice("lanes", {"shared", "ideal"}) == "ideal";
  const TransferLanes lanes = ideal ? TransferLanes::ideal : TransferLanes::shared;
  Scenario scenario =
      options.words().empty() ? from_names(options, lanes) : from_plan(options, lanes);
  scenario.assumptions["lanes"] = ideal ? "ideal" : "shared";
  scenario.assumptions["contention"] = "none: no two lanes share a link";
  return scenario;
}

}  // namespace tandem::tools
