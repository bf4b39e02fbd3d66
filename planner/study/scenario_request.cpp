#include "planner/study/scenario_request.h"

#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/options.h"
#include "core/schedule/user_schedule.h"
#include "planner/cluster/plan_period.h"
#include "planner/study/prepared_plan.h"
#include "planner/study/schedule_file.h"
#include "simulator/cost/cluster_network.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/engine/blocking_transfers.h"

namespace tandem {

namespace {

GivenCosts costs_for(const PlainCosts& costs, const Schedule& schedule, const Slicing& slicing) {
  const Placement& placement = schedule.placement;
  GivenCosts given =
      given_costs(costs, placement.stages(), chunks_of(placement)[DeviceId{}], placement.devices);
  cut_into_slices(slicing, given);
  return given;
}

PreparedScenario of_user_schedule(const PlainRequest& plain, TransferLanes lanes) {
  const Schedule& schedule = *plain.schedule;
  PreparedScenario made{
      .scenario = plain_scenario(
          schedule, costs_for(plain.costs, schedule, {.count = schedule.slices}), lanes),
      .request = plain.request};
  check_right(schedule, lanes == TransferLanes::shared ? made.scenario.program : lower(schedule));
  return made;
}

PreparedScenario of_ordered_by_costs(const PlainRequest& plain, TransferLanes lanes,
                                     const SearchWatch& watch) {
  const ScheduleTraits& traits = *plain.traits;
  ScheduleRequest request = plain.request;
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  const GivenCosts costs = given_costs(plain.costs, stage_count(traits, request),
                                       replicas_per_device(traits, request), request.devices);
  request.costs = order_costs(costs, request.recompute);
  request.costs->shared_links = lanes == TransferLanes::shared;
  std::optional<OrderSearch> search;
  if (is_search(traits)) search = timed_search(traits, request, costs.times, watch);
  Schedule schedule = search ? search->found.schedule : make_schedule(traits, request);
  return {.scenario = plain_scenario(std::move(schedule), costs, lanes),
          .request = std::move(request),
          .search = std::move(search)};
}

PreparedScenario of_named_schedule(const PlainRequest& plain, TransferLanes lanes) {
  Schedule schedule = make_schedule(*plain.traits, plain.request);
  const GivenCosts costs = costs_for(plain.costs, schedule, plain.request.slices);
  return {.scenario = plain_scenario(std::move(schedule), costs, lanes), .request = plain.request};
}

PreparedScenario prepare(const PlainRequest& plain, const ScenarioRequest& asked,
                         const SearchWatch& watch) {
  PreparedScenario made = plain.schedule ? of_user_schedule(plain, asked.lanes)
                          : plain.traits->orders_by_costs
                              ? of_ordered_by_costs(plain, asked.lanes, watch)
                              : of_named_schedule(plain, asked.lanes);
  made.scenario.microbatch_size = plain.microbatch_size;
  return made;
}

/// The costs, the memory and, if asked for, the network that the cluster sets.
StageCosts put_on_cluster(const PlanOnCluster& on, const Plan& plan, const Profile& profile,
                          const ScenarioRequest& asked, Scenario& scenario) {
  const std::size_t devices = std::size_t{plan.request.width} * plan.request.devices;
  if (devices > on.cluster->size()) {
    throw InputError(fmt::format("the plan needs {} devices: cluster {} has {}", devices,
                                 on.cluster->name(), on.cluster->size()));
  }
  AnalyticAssumptions assumptions = on.assumptions;
  assumptions.format = NumberFormat::fp32;
  assumptions.measured = std::make_shared<const TensorProfiles>(TensorProfiles{{1, profile}});
  const ClusterLayout layout(*on.cluster, plan.request.width, plan.request.devices, on.order);
  scenario.capacity.emplace();
  for (const DeviceId device : all_ids<DeviceId>(layout.depth()))
    scenario.capacity->push_back(layout.memory(device));
  scenario.reserve = asked.reserve;
  if (asked.contention) {
    scenario.network = cluster_network(scenario.program, plan, layout, assumptions);
    scenario.network->compute_slowdown =
        Table<DeviceId, double>(plan.request.devices, asked.compute_slowdown);
  }
  return cluster_costs(plan, scenario.program.placement(), layout, assumptions);
}

PreparedScenario prepare(const PlanFileRequest& file, const ScenarioRequest& asked,
                         const SearchWatch&) {
  PreparedPlan prepared =
      prepare_plan(file.path, *file.plan, file.global_norm, file.post_validation, file.storage);
  Plan& plan = prepared.plan;
  Table<DeviceId, MemoryByClass> memory = planned_memory(prepared);
  Program program = asked.lanes == TransferLanes::shared ? std::move(prepared.program)
                                                         : lower(prepared.schedule, asked.lanes);
  PreparedScenario made{.scenario = {.schedule = std::move(prepared.schedule),
                                     .program = std::move(program),
                                     .microbatch_size = plan.microbatch_size,
                                     .memory = std::move(memory),
                                     .stash = stash_bytes_of(prepared.bytes)},
                        .request = schedule_request(plan)};
  if (file.profile) {
    made.profile = *file.profile;
    const StageCosts costs =
        file.on ? put_on_cluster(*file.on, plan, *made.profile, asked, made.scenario)
                : costs_of(plan, *made.profile, file.link_rate);
    made.scenario.costs =
        price(made.scenario.program, cost_model(made.scenario.program.placement(), costs));
    made.scenario.layers = layer_shares(plan, costs);
    made.warnings = interpolations({{1, *made.profile}}, plan.model, plan.microbatch_size, 1);
  }
  made.plan = std::move(plan);
  return made;
}

PreparedScenario prepare(const ClusterRequest& request, const ScenarioRequest& asked,
                         const SearchWatch&) {
  ClusterSetup setup = set_up_on_cluster(request);
  ClusterPlan& made = setup.made;
  const Plan& plan = made.plan;
  Program program = asked.lanes == TransferLanes::shared ? std::move(made.program)
                                                         : lower(made.schedule, asked.lanes);
  Scenario scenario{.schedule = made.schedule,
                    .program = std::move(program),
                    .microbatch_size = plan.microbatch_size,
                    .memory = std::move(made.memory),
                    .figures = std::move(made.figures),
                    .capacity = std::move(made.capacity),
                    .reserve = setup.assumptions().reserve,
                    .stash = stash_bytes_of(made.bytes),
                    .use = setup.use()};
  scenario.costs = price(scenario.program, cost_model(made.schedule.placement, made.costs));
  scenario.layers = layer_shares(plan, made.costs);
  if (scenario.figures->by == FitsBy::framework) {
    scenario.held = framework_of(made.bytes);
  }
  if (asked.contention) {
    scenario.network = network_of(setup, scenario.program);
    scenario.network->compute_slowdown =
        Table<DeviceId, double>(plan.request.devices, asked.compute_slowdown);
  }
  PreparedScenario prepared{.scenario = std::move(scenario),
                            .request = schedule_request(plan),
                            .plan = plan,
                            .warnings = setup.warnings()};
  prepared.cluster = std::move(setup);
  return prepared;
}

}  // namespace

bool searches(const ScenarioRequest& request) {
  const ScheduleTraits* traits = schedule_of(request);
  return traits != nullptr && is_search(*traits);
}

const ScheduleTraits* schedule_of(const ScenarioRequest& request) {
  if (const PlainRequest* plain = request.plain()) return plain->traits;
  if (const ClusterRequest* cluster = request.cluster())
    return &find_schedule(cluster->plan.schedule);
  return nullptr;
}

void set_schedule(const ScheduleTraits& traits, std::size_t stages, ScenarioRequest& request) {
  ScheduleRequest* asked = nullptr;
  if (auto* plain = std::get_if<PlainRequest>(&request.source)) {
    plain->traits = &traits;
    asked = &plain->request;
  } else if (auto* cluster = std::get_if<ClusterRequest>(&request.source)) {
    cluster->plan.schedule = traits.name;
    asked = &cluster->plan.request;
  }
  if (asked == nullptr) return;
  fit_options(traits, *asked);
  const ScheduleOption* option = option_of(traits, &ScheduleRequest::chunks);
  if (stages > 1 && option != nullptr && static_cast<std::int64_t>(stages) % option->times == 0)
    asked->chunks = static_cast<std::uint16_t>(stages);
}

std::optional<std::int64_t> microbatches_of(const ScenarioRequest& request) {
  if (const PlainRequest* plain = request.plain()) {
    if (plain->traits == nullptr) return std::nullopt;
    return plain->request.microbatches;
  }
  if (const ClusterRequest* cluster = request.cluster()) return cluster->microbatches;
  return std::nullopt;
}

void set_microbatches(std::int64_t microbatches, ScenarioRequest& request) {
  const auto count = static_cast<std::int32_t>(microbatches);
  if (auto* plain = std::get_if<PlainRequest>(&request.source)) plain->request.microbatches = count;
  if (auto* cluster = std::get_if<ClusterRequest>(&request.source)) cluster->microbatches = count;
}

PreparedScenario prepare_scenario(const ScenarioRequest& request, const SearchWatch& watch) {
  PreparedScenario made = std::visit(
      [&](const auto& source) { return prepare(source, request, watch); }, request.source);
  Scenario& scenario = made.scenario;
  if (request.memory && request.cluster() == nullptr) {
    scenario.capacity.emplace(scenario.program.placement().devices, *request.memory);
    scenario.reserve = request.reserve;
  }
  if (request.blocking_transfers) scenario.program = with_blocking_transfers(scenario.program);
  scenario.weights = weight_semantics(scenario.schedule);
  if (request.vanilla_only && scenario.weights != WeightSemantics::vanilla) {
    throw InputError(
        fmt::format("schedule {}: its weights are {}, and only vanilla ones were asked for",
                    scenario.schedule.name, name(scenario.weights)));
  }
  if (!request.perturbations.empty() || request.contention) {
    scenario.healthy_costs = scenario.costs;
    scenario.costs = perturbed(scenario.program, std::move(scenario.costs), request.perturbations);
  }
  return made;
}

}  // namespace tandem
