#include "planner/study/sensitivities.h"

#include "core/base/error.h"

namespace tandem {

namespace {

/// Instances of a cycle times devices, links and sums that may be its bottleneck: a quarter of a
/// second at the most.
constexpr double kMostWork = 2e6;

/// The next one is looked for where one alone limits the run.
Bottlenecks of_endless_run(const Scenario& scenario, const SimulationResult& result,
                           const std::vector<Sensitivity>& rows) {
  Bottlenecks all{.whole_s = result.period_s(), .order = bottlenecks(rows)};
  const auto& order = all.order;
  const bool alone = !order.empty() && limits_all_paths(order[0]) &&
                     (order.size() == 1 || !limits_all_paths(order[1]));
  if (alone) all.next = next_bottleneck(scenario.program, scenario.costs, order.front());
  return all;
}

}  // namespace

bool limits_all_paths(const Sensitivity& row) { return row.least.time.count() > 0; }

std::optional<Bottlenecks> bottlenecks_of(const Scenario& scenario,
                                          const SimulationResult& result) {
  if (scenario.network || !result.exact_cycle) return std::nullopt;
  const double work = static_cast<double>(scenario.program.size()) *
                      static_cast<double>(result.cycle_batches) *
                      static_cast<double>(scenario.program.placement().devices);
  if (work > kMostWork) return std::nullopt;
  try {
    const auto paths = CriticalPaths::of_endless_run(scenario.program, scenario.costs, result);
    return of_endless_run(scenario, result, paths.spent_on_suspects());
  } catch (const InputError&) {  // times too long for circuits to be compared
    return std::nullopt;
  }
}

Sensitivities sensitivities_of(const Scenario& scenario, const SimulationResult& result,
                               std::int64_t batches) {
  if (scenario.network) {
    throw InputError(
        "--sensitivity and --contention exclude each other: on shared links a slower op changes "
        "the times of others, so critical paths are not exact");
  }
  const auto run = CriticalPaths::of_run(scenario.program, scenario.costs, batches);
  std::optional<CriticalPaths> endless;
  if (result.exact_cycle)
    endless = CriticalPaths::of_endless_run(scenario.program, scenario.costs, result);
  Sensitivities all{.period = {}, .makespan = run.spent_on_resources()};
  if (scenario.layers)
    all.layers = layer_gains(*scenario.layers, endless ? &*endless : nullptr, run);
  if (endless) {
    all.period = endless->spent_on_resources();
    all.bottlenecks = of_endless_run(scenario, result, *all.period);
  } else {
    all.bottlenecks = {.endless = false,
                       .whole_s = to_seconds(result.makespan),
                       .order = bottlenecks(all.makespan)};
  }
  return all;
}

}  // namespace tandem
