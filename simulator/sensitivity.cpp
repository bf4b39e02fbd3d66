#include "simulator/sensitivity.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/check.h"
#include "simulator/critical_graph.h"

namespace tandem {

namespace {

/// Of one resource after the other: the least of its times, and of their negatives.
std::vector<Sensitivity> of_all(
    const Program& program, const CostTable& costs, const CriticalGraph& graph,
    const std::function<CriticalTime(const std::vector<std::int64_t>&)>& least) {
  std::vector<Sensitivity> rows;
  std::vector<std::int64_t> weights(costs.size());
  for (const Resource& resource : resources(program)) {
    bool present = false;
    for (const CostId cost : ids(costs)) {
      const bool used = uses(resource, program.cost_keys()[cost]) && costs[cost].count() > 0;
      weights[index(cost)] = used ? costs[cost].count() : 0;
      present = present || (used && graph.has(cost));
    }
    Sensitivity row{.resource = resource, .least = {}, .most = {}};
    if (present) {
      row.least = least(weights);
      for (std::int64_t& weight : weights) weight = -weight;
      row.most = least(weights);
      row.most.time = -row.most.time;
    }
    rows.push_back(row);
  }
  return rows;
}

/// A cycle of the endless run, once it is steady.
Timeline recorded_cycle(const Program& program, const CostTable& costs,
                        const SimulationResult& result) {
  const Sweep sweep(program);
  SweepRun run(program, sweep, costs);
  run.run_to(result.steady_from_batch - 1, SweepRun::kEndless, false);
  Timeline timeline;
  SimulatedMachine machine(program, costs, sweep.carried(), &timeline);
  machine.restore(run.body(), run.state(), DeviceTallies(sweep.devices()));
  for (std::int64_t body = run.body() + 1; body <= run.body() + result.cycle_batches; ++body) {
    run_body(program, program.order(), body, SweepRun::kEndless, machine);
  }
  return timeline;
}

}  // namespace

std::vector<Sensitivity> makespan_sensitivity(const Program& program, const CostTable& costs,
                                              std::int64_t batches) {
  check_traceable(program, "a run", batches);
  Timeline timeline;
  SimulatedMachine machine(program, costs, &timeline);
  run(program, program.order(), batches, machine);
  Duration makespan{};
  for (const DeviceTally& tally : machine.tallies()) makespan = std::max(makespan, tally.last_end);
  const auto graph = CriticalGraph::paths(program, TightGraph(program, timeline), makespan);
  return of_all(program, costs, graph, [&](const std::vector<std::int64_t>& weights) {
    return CriticalTime{Duration(graph.least_on_a_path(weights)), 1};
  });
}

std::vector<Sensitivity> period_sensitivity(const Program& program, const CostTable& costs,
                                            const SimulationResult& result) {
  TANDEM_CHECK(result.exact_cycle);
  check_traceable(program, "a cycle", result.cycle_batches);
  const Timeline timeline = recorded_cycle(program, costs, result);
  const auto graph = CriticalGraph::circuits(program, TightGraph(program, timeline, result.cycle));
  return of_all(program, costs, graph, [&](const std::vector<std::int64_t>& weights) {
    const CriticalGraph::Least least = graph.least_on_a_circuit(weights, result.cycle);
    return CriticalTime{Duration(least.time), least.cycles * result.cycle_batches};
  });
}

std::vector<Sensitivity> bottlenecks(const std::vector<Sensitivity>& rows) {
  std::vector<Sensitivity> found;
  for (const Sensitivity& row : rows) {
    const Resource::Kind kind = row.resource.kind;
    const bool stands_alone = kind == Resource::Kind::device || kind == Resource::Kind::link ||
                              kind == Resource::Kind::sums;
    if (stands_alone && row.most.time.count() > 0) found.push_back(row);
  }
  const auto key = [](const Sensitivity& row) {
    return std::pair(row.least.seconds_a_batch(), row.most.seconds_a_batch());
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Sensitivity& a, const Sensitivity& b) { return key(a) > key(b); });
  return found;
}

std::optional<NextBottleneck> next_bottleneck(const Program& program, const CostTable& costs,
                                              const Sensitivity& bottleneck) {
  constexpr double kClose = 1e-3, kRounding = 1e-6;
  // In finer units, so that prices cut by a thousandth are not rounded away.
  CostTable fine = costs;
  const auto work =
      static_cast<double>(std::ranges::max(costs).count()) * static_cast<double>(program.size());
  const std::int64_t units = work < 0x1p50 ? 1024 : 1;
  for (const CostId cost : ids(fine)) fine[cost] *= units;
  const auto faster = [&](double less) {
    return scaled(program, fine, bottleneck.resource, 1.0 - less);
  };
  const double whole = simulate(program, fine, {}).period_s();
  const double slope = bottleneck.least.seconds_a_batch() * static_cast<double>(units);
  // The period is convex in prices: it follows the line that it begins on until it leaves it.
  const auto follows = [&](double less) {
    const SimulationResult result = simulate(program, faster(less), {});
    return result.period_s() <= whole - less * slope + kRounding * whole;
  };
  if (follows(1.0)) return std::nullopt;
  double on = 0.0, off = 1.0;
  while (off - on > kClose) (follows((on + off) / 2) ? on : off) = (on + off) / 2;
  const SimulationResult beyond = simulate(program, faster(off), {});
  if (!beyond.exact_cycle) return std::nullopt;
  for (const Sensitivity& row : bottlenecks(period_sensitivity(program, faster(off), beyond))) {
    if (row.resource != bottleneck.resource) return NextBottleneck{row.resource, off};
  }
  return std::nullopt;
}

}  // namespace tandem
