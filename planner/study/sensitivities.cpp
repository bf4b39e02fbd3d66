#include "planner/study/sensitivities.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

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

LayerGain gain_of(const LayerShares& shares, const CriticalPaths* period,
                  const CriticalPaths& makespan, std::vector<std::size_t> layers) {
  LayerGain gain{.layers = std::move(layers)};
  if (period != nullptr) gain.period = period->spent_on(shares, gain.layers);
  gain.makespan = makespan.spent_on(shares, gain.layers);
  return gain;
}

std::vector<LayerGain> of_each(const LayerShares& shares, const CriticalPaths* period,
                               const CriticalPaths& makespan) {
  std::vector<LayerGain> each;
  for (const CriticalShare& share : makespan.spent_on_layers(shares))
    each.push_back({.layers = {each.size()}, .makespan = share});
  if (period == nullptr) return each;
  const std::vector<CriticalShare> shares_of_period = period->spent_on_layers(shares);
  for (std::size_t layer = 0; layer < each.size(); ++layer)
    each[layer].period = shares_of_period[layer];
  return each;
}

/// By the endless run, where that is known; of equals by this run.
std::array<double, 4> rank(const LayerGain& gain) {
  const CriticalShare first = gain.period.value_or(CriticalShare{});
  return {first.least.seconds_a_batch(), first.most.seconds_a_batch(),
          gain.makespan.least.seconds_a_batch(), gain.makespan.most.seconds_a_batch()};
}

/// `period`: null where no repetition was seen.
LayerGains layer_gains(const LayerShares& shares, const CriticalPaths* period,
                       const CriticalPaths& makespan) {
  LayerGains gains{.kinds = shares.kinds,
                   .stages = stages_of_layers(shares),
                   .each = of_each(shares, period, makespan)};
  std::map<LayerKind, std::vector<std::size_t>> by_kind;
  for (std::size_t layer = 0; layer < gains.kinds.size(); ++layer)
    by_kind[gains.kinds[layer]].push_back(layer);
  for (auto& [kind, layers] : by_kind)
    gains.alike.push_back(gain_of(shares, period, makespan, std::move(layers)));
  std::vector<std::size_t> order(gains.each.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t layer) { return rank(gains.each[layer]); });
  constexpr std::size_t kMostNamed = 8;
  const std::size_t named = std::min(order.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) gains.most.push_back(gains.each[order[i]]);
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(named));
  if (!order.empty()) gains.rest = gain_of(shares, period, makespan, std::move(order));
  return gains;
}

}  // namespace

std::string name(const LayerGains& gains, const LayerGain& gain) {
  const std::string_view kind = tandem::name(gains.kinds[gain.layers.front()]);
  if (gain.layers.size() == 1) return fmt::format("layer {}, {}", gain.layers.front(), kind);
  return fmt::format("{} {} layers", gain.layers.size(), kind);
}

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
  Sensitivities all{.makespan = run.spent_on_resources()};
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
