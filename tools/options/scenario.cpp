#include "tools/options/scenario.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/lower/lower.h"
#include "core/schedule/user_schedule.h"
#include "simulator/contention/contended.h"
#include "simulator/cost/cluster_network.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/engine/blocking_transfers.h"
#include "tools/cli/file_cache.h"
#include "tools/options/backend_options.h"
#include "tools/options/cluster_setup.h"
#include "tools/options/cost_options.h"
#include "tools/options/perturbation.h"
#include "tools/options/plan_setup.h"
#include "tools/options/reserve_option.h"
#include "tools/options/schedule_file.h"
#include "tools/options/schedule_options.h"
#include "tools/options/weight_options.h"

namespace tandem::tools {

namespace {

constexpr double kMostSlowdown = 1000.0;

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
          {"global_norm", request.global_norm},
          {"post_validation", request.post_validation},
          {"activation_cap", request.activation_cap            ? Json(*request.activation_cap)
                             : request.activation_caps.empty() ? Json()
                                                               : Json(request.activation_caps)}};
}

/// What its text says of devices and microbatches is not said again.
Schedule schedule_of_file(const Options& options) {
  for (const char* name :
       {"schedule", "devices", "microbatches", "width", "recompute", "chunks", "group",
        "extra-in-flight", "replicas", "directions", "waves", "vertical-sync", "activation-cap",
        "seed", "orders", "time-limit", "clip", "post-validation"}) {
    if (options.has(name))
      refuse(options, fmt::format("--{} is not taken: the schedule file sets it", name));
  }
  return read_once<read_schedule>(options.text("schedule-file"));
}

/// --memory, the same for all, and what of it --reserve keeps.
void set_capacity(const Options& options, Scenario& scenario) {
  const std::optional<Bytes> memory = options.bytes("memory");
  if (!memory && options.has("reserve"))
    refuse(options, "--reserve is a part of --memory: give --memory too");
  if (!memory) return;
  scenario.capacity.emplace(scenario.program.placement().devices, *memory);
  scenario.reserve = reserve_of(options);
  scenario.assumptions["reserve"] = reserve_json(scenario.reserve);
}

/// A schedule with the costs that it is simulated at, and may be ordered by.
struct Priced {
  ScheduleRequest request;  // of a file as far as the text tells
  Schedule schedule;
  GivenCosts costs;
  std::optional<OrderSearch> search = {};
};

GivenCosts costs_for(const Options& options, const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  return given_costs(options, placement.parts(), chunks_of(placement)[DeviceId{}],
                     placement.devices);
}

Priced priced_schedule(const Options& options, TransferLanes lanes) {
  if (options.has("schedule-file")) {
    Schedule schedule = schedule_of_file(options);
    ScheduleRequest request;
    request.devices = schedule.placement.devices;
    request.microbatches = schedule.microbatches;
    request.width = schedule.width;
    GivenCosts costs = costs_for(options, schedule);
    return {std::move(request), std::move(schedule), std::move(costs)};
  }
  if (!options.has("schedule")) refuse(options, "give a plan, or --schedule NAME with costs");
  const ScheduleTraits& traits = find_schedule(options.text("schedule"));
  ScheduleRequest request = schedule_request(options, traits);
  if (!traits.orders_by_costs) {
    Schedule schedule = make_schedule(traits, request);
    GivenCosts costs = costs_for(options, schedule);
    return {std::move(request), std::move(schedule), std::move(costs)};
  }
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  GivenCosts costs = given_costs(options, part_count(traits, request),
                                 stages_per_device(traits, request), request.devices);
  request.costs = order_costs(costs, request.recompute);
  request.costs->shared_links = lanes == TransferLanes::shared;
  if (is_search(traits)) {
    OrderSearch search = search_with_progress(options, traits, request, costs.times);
    Schedule schedule = search.found.schedule;
    return {std::move(request), std::move(schedule), std::move(costs), std::move(search)};
  }
  Schedule schedule = make_schedule(traits, request);
  return {std::move(request), std::move(schedule), std::move(costs)};
}

Scenario from_names(const Options& options, TransferLanes lanes) {
  if (options.has("profile")) {
    refuse(options, "--profile is for a plan or a --model, which say what the layers are");
  }
  if (options.has("link-rate")) {
    refuse(options,
           "--link-rate is for a plan, which says how many bytes are sent; with plain costs give "
           "--transfer");
  }
  Priced priced = priced_schedule(options, lanes);
  Program program = lower(priced.schedule, lanes);
  if (options.has("schedule-file"))
    check_right(priced.schedule, lanes == TransferLanes::shared ? program : lower(priced.schedule));
  Scenario scenario{.schedule = std::move(priced.schedule),
                    .program = std::move(program),
                    .costs = {},
                    .activation_after_input = priced.costs.activation_after_input,
                    .memory = {},
                    .capacity = {},
                    .stash = {},
                    .search = std::move(priced.search),
                    .config = {},
                    .assumptions = {}};
  scenario.microbatch_size =
      static_cast<std::int32_t>(options.integer("microbatch-size", 1, 1'000'000, 1));
  scenario.config = {{"schedule", scenario.schedule.name},
                     {"microbatch_size", scenario.microbatch_size}};
  scenario.config.update(as_json(priced.request));
  scenario.config.update(priced.costs.config);
  const Placement& placement = scenario.program.placement();
  if (priced.costs.sized) {
    Table<StageId, HeldActivation> held;
    for (const PartId part : placement.part) held.push_back(priced.costs.held[part]);
    scenario.memory = activation_memory(scenario.program, held);
    scenario.held = std::move(held);
  }
  set_capacity(options, scenario);
  scenario.costs = price(scenario.program, cost_model(placement, std::move(priced.costs.times)));
  return scenario;
}

Scenario from_plan(const Options& options, TransferLanes lanes) {
  const std::string& path = options.words()[0];
  for (const char* name : {"schedule",
                           "schedule-file",
                           "devices",
                           "microbatches",
                           "width",
                           "recompute",
                           "chunks",
                           "group",
                           "extra-in-flight",
                           "replicas",
                           "directions",
                           "waves",
                           "vertical-sync",
                           "activation-cap",
                           "seed",
                           "orders",
                           "time-limit",
                           "costs",
                           "costs-per",
                           "microbatch-size",
                           "activation-bytes",
                           "weight-gradient-bytes"}) {
    if (options.has(name))
      refuse(options, fmt::format("--{} is not taken: the plan sets it", name));
  }
  for (const char* name : cost_options()) {
    if (options.has(name))
      refuse(options, fmt::format("a plan has measured costs: --{} is not taken", name));
  }
  PreparedPlan prepared = prepare_plan(path, global_norm(options), options.has("post-validation"),
                                       storage_of(options));
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
                    .capacity = {},
                    .stash = Table<StageId, Bytes>(prepared.bytes.size()),
                    .search = {},
                    .config = {},
                    .assumptions = {}};
  set_capacity(options, scenario);
  for (const StageId stage : ids(prepared.bytes))
    (*scenario.stash)[stage] = prepared.bytes[stage][SlotKind::stash];
  scenario.costs = price(scenario.program, cost_model(scenario.program.placement(), costs));
  scenario.layers = layer_shares(plan, costs);
  scenario.config = {{"plan", path},
                     {"model", plan.model.name},
                     {"schedule", plan.schedule},
                     {"storage", name(prepared.storage)},
                     {"microbatch_size", plan.microbatch_size}};
  scenario.config.update(as_json(schedule_request(plan)));
  if (options.has("link-rate")) scenario.config["link_bytes_per_s"] = *options.rate("link-rate");
  scenario.assumptions["profile"] = {
      {"machine", profile.machine}, {"date", profile.date}, {"command", profile.command}};
  scenario.warnings = interpolations({{1, profile}}, plan.model, plan.microbatch_size, 1);
  for (std::string& warning : storage_warnings(prepared.storage))
    scenario.warnings.push_back(std::move(warning));
  return scenario;
}

Scenario from_cluster(const Options& options, TransferLanes lanes) {
  ClusterSetup setup = make_cluster_setup(options);
  setup.contention = options.has("contention");
  setup.compute_slowdown = options.number("compute-slowdown", 1.0, kMostSlowdown, 1.0);
  ClusterPlan& made = setup.made;
  const Plan& plan = made.plan;
  Program program =
      lanes == TransferLanes::shared ? std::move(made.program) : lower(made.schedule, lanes);
  ClusterUse use{.tokens = plan.model.sequence,
                 .flops = model_flops(plan.model),
                 .devices = setup.devices_used(),
                 .summary = setup.summary(),
                 .assumptions = setup.assumption_lines()};
  use.flops_done = use.flops;
  if (plan.recompute == Recompute::full) use.flops_done += forward_flops(plan.model);
  for (std::size_t device = 0; device < use.devices; ++device) {
    use.peak_flops_per_s += setup.cluster[id_at<DeviceId>(device)].flops(setup.assumptions.format);
  }
  Scenario scenario{.schedule = made.schedule,
                    .program = std::move(program),
                    .costs = {},
                    .microbatch_size = plan.microbatch_size,
                    .memory = std::move(made.memory),
                    .capacity = std::move(made.capacity),
                    .reserve = setup.assumptions.reserve,
                    .stash = Table<StageId, Bytes>(made.bytes.size()),
                    .search = {},
                    .use = std::move(use),
                    .config = setup.config(),
                    .assumptions = setup.stated()};
  for (const StageId stage : ids(made.bytes))
    (*scenario.stash)[stage] = made.bytes[stage][SlotKind::stash];
  scenario.costs = price(scenario.program, cost_model(made.schedule.placement, made.costs));
  scenario.layers = layer_shares(plan, made.costs);
  scenario.warnings = setup.warnings();
  scenario.config.update(as_json(schedule_request(plan)));
  if (setup.contention) {
    const ClusterLayout layout(setup.cluster, plan.width, plan.depth, setup.order,
                               static_cast<std::size_t>(setup.assumptions.tensor));
    scenario.network = cluster_network(scenario.program, plan, layout, setup.assumptions);
    scenario.network->compute_slowdown =
        Table<DeviceId, double>(plan.depth, setup.compute_slowdown);
    scenario.config["compute_slowdown"] = setup.compute_slowdown;
  }
  return scenario;
}

void set_semantics(const Options& options, Scenario& scenario) {
  scenario.weights = weight_semantics(scenario.schedule);
  check_semantics(options, scenario.schedule.name, scenario.weights);
  scenario.config["semantics"] = name(scenario.weights);
}

void take_troubles(const Options& options, Scenario& scenario) {
  for (const char* name : {"slow-device", "straggler", "degraded-link", "contention"}) {
    if (options.has(name)) scenario.troubles.emplace_back(name);
  }
  if (scenario.troubles.empty()) return;
  scenario.healthy_costs = scenario.costs;
  scenario.costs = perturbed(options, scenario.program, std::move(scenario.costs), scenario.config);
}

}  // namespace

SimulationResult simulate(const Scenario& scenario, const SimulationRequest& request) {
  if (scenario.network)
    return simulate_contended(scenario.program, scenario.costs, *scenario.network, request);
  return tandem::simulate(scenario.program, scenario.costs, request);
}

void add_scenario_options(Options& options) {
  options.words("PLAN", 0, 1).group("Schedule");
  options
      .value("schedule", "NAME",
             "name of a schedule (tandem schedule --list), or several, A,B,C, to compare")
      .input("schedule-file", "FILE",
             "a schedule in tandem's notation or PyTorch's CSV, instead of a name");
  add_semantics_option(options);
  add_schedule_options(options);
  add_cost_options(options);
  options.group("Run")
      .value("link-rate", "RATE", "for a plan: rate of the links between devices, such as 1Gb/s")
      .value("lanes", "KIND", "shared|ideal: whether a transfer occupies a link (default shared)")
      .value("microbatch-size", "B", "samples of a microbatch (default 1)")
      .value("batches", "N", "length of the run (default 1)")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB");
  add_reserve_option(options);
  add_storage_option(options);
  add_cluster_options(options);
  add_perturbation_options(options);
  options.flag("contention",
               "on a cluster: transfers and sums share links at max-min fair rates, through time");
  options.value("compute-slowdown", "F",
                "with --contention: a device computes F times as long while a transfer or a sum "
                "of its own is under way (default 1)");
}

std::int64_t batches_of(const Options& options, std::int64_t most) {
  return options.integer("batches", 1, most, 1);
}

Scenario make_scenario(const Options& options) {
  const bool ideal = options.choice("lanes", {"shared", "ideal"}) == "ideal";
  const TransferLanes lanes = ideal ? TransferLanes::ideal : TransferLanes::shared;
  const bool blocking = blocks_transfers(options);
  if (blocking && ideal)
    refuse(options, "--lanes ideal and --transfers blocking exclude each other");
  const bool on_cluster = names_a_cluster(options);
  if (options.has("contention") && !on_cluster)
    refuse(options, "--contention is for a --model on a --cluster");
  if (options.has("compute-slowdown") && !options.has("contention")) {
    refuse(options,
           "--compute-slowdown needs --contention: without it nobody follows which ops overlap");
  }
  if (options.has("storage") && options.words().empty())
    refuse(options, "--storage is for a PLAN: a --model on a --cluster has its --dtype");
  if (on_cluster && !options.words().empty())
    refuse(options, "give a plan, or a --model on a --cluster");
  Scenario scenario = on_cluster                ? from_cluster(options, lanes)
                      : options.words().empty() ? from_names(options, lanes)
                                                : from_plan(options, lanes);
  if (options.has("degraded-link") && scenario.network) {
    refuse(options,
           "--degraded-link and --contention exclude each other: with --contention the cluster's "
           "file sets the rates of links");
  }
  if (blocking) scenario.program = with_blocking_transfers(scenario.program);
  set_semantics(options, scenario);
  take_troubles(options, scenario);
  scenario.assumptions["lanes"] = ideal ? "ideal" : "shared";
  scenario.assumptions["transfers"] = blocking ? "blocking" : "overlapped";
  scenario.assumptions["contention"] =
      scenario.network ? "max-min fair shares of every link, all pipelines in step"
      : on_cluster     ? "replicas share links; nothing else does"
                       : "none: no two lanes share a link";
  return scenario;
}

}  // namespace tandem::tools
