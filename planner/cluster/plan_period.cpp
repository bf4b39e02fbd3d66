#include "planner/cluster/plan_period.h"

#include <cstddef>
#include <optional>

#include "planner/cluster/least_period.h"
#include "simulator/contention/contended.h"
#include "simulator/contention/least_costs.h"
#include "simulator/cost/cluster_network.h"
#include "simulator/engine/blocking_transfers.h"
#include "simulator/run_figures.h"

namespace tandem {

namespace {

/// Without transfers and sums, whose prices may be above what their flows take.
StageCosts without_movement(StageCosts costs) {
  costs.transfer = {};
  costs.links.clear();
  costs.ways.clear();
  for (StageTimes& stage : costs.stages) stage.reduce = {};
  for (StageCosts& slice : costs.slices) slice = without_movement(std::move(slice));
  return costs;
}

FoundPeriod contended_period(const Program& program, const CostTable& prices,
                             const Network& network, bool blocking_transfers) {
  const SimulationResult result =
      blocking_transfers ? simulate_contended(with_blocking_transfers(program), prices, network, {})
                         : simulate_contended(program, prices, network, {});
  return {.seconds = result.period_s(),
          .simulated = true,
          .contended = true,
          .exact = result.exact_cycle};
}

CostTable prices_of(const PeriodQuestion& question) {
  const LoweredSchedule& lowered = question.lowered;
  return price(lowered.program(), cost_model(lowered.schedule().placement, question.costs));
}

Network network_of(const PeriodQuestion& question) {
  return cluster_network(question.lowered.program(), question.plan, question.layout,
                         question.assumptions);
}

/// Of a simulation at prices that no run with contention is below.
double bound_of_contended(const PeriodQuestion& question) {
  constexpr double kRounding = 1e-9;  // of a cycle, to the nanosecond
  const Program& program = question.lowered.program();
  const CostTable least = least_costs(network_of(question), prices_of(question));
  if (!question.blocking_transfers)
    return simulated_period_s(program, question.lowered.compiled(), least) - kRounding;
  const Program blocking = with_blocking_transfers(program);
  return simulated_period_s(blocking, CompiledProgram(blocking), least) - kRounding;
}

}  // namespace

FoundPeriod period_of_interest(const PeriodQuestion& question,
                               const std::function<bool(double seconds)>& interests) {
  const Schedule& schedule = question.lowered.schedule();
  const Duration least = question.contention
                             ? least_period(schedule, without_movement(question.costs))
                             : least_period(schedule, question.costs);
  if (!interests(to_seconds(least))) return {.seconds = to_seconds(least)};
  return {.seconds = question.contention
                         ? bound_of_contended(question)
                         : period_s(question.lowered, question.costs, question.blocking_transfers),
          .simulated = true};
}

double least_period_s(const ScheduleOutline& outline, const Plan& plan, const StageCosts& costs,
                      bool contention) {
  const std::int32_t width = plan.request.width;
  return to_seconds(contention ? least_period(outline, width, without_movement(costs))
                               : least_period(outline, width, costs));
}

FoundPeriod contended_period(const PeriodQuestion& question) {
  return contended_period(question.lowered.program(), prices_of(question), network_of(question),
                          question.blocking_transfers);
}

FoundPeriod contended_period(const ClusterSetup& setup) {
  const ClusterPlan& made = setup.made;
  const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
  return contended_period(made.program, prices, network_of(setup, made.program),
                          setup.request.blocking_transfers);
}

Network network_of(const ClusterSetup& setup, const Program& program) {
  const Plan& plan = setup.made.plan;
  const ClusterLayout layout(setup.cluster(), plan.request.width, plan.request.devices,
                             setup.request.order,
                             static_cast<std::size_t>(setup.assumptions().tensor));
  return cluster_network(program, plan, layout, setup.assumptions());
}

}  // namespace tandem
