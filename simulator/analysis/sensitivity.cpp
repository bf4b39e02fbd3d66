#include "simulator/analysis/sensitivity.h"

#include <algorithm>

#include "core/base/check.h"
#include "simulator/compiled/steady_state.h"

namespace tandem {

namespace {

/// Whether it may be a bottleneck: no kind of op, and no group.
bool stands_alone(const Resource& resource) {
  return resource.kind == Resource::Kind::device || resource.kind == Resource::Kind::link ||
         resource.kind == Resource::Kind::sums;
}

/// A cycle of the endless run, once it is steady.
Timeline recorded_cycle(const Program& program, const CostTable& costs,
                        const SimulationResult& result) {
  const CompiledProgram compiled(program);
  CompiledRun run(program, compiled, costs);
  run.run_to(result.steady_from_batch - 1, CompiledRun::kEndless, false);
  Timeline timeline;
  SimulatedMachine machine(program, costs, compiled.carry_over(), &timeline);
  machine.restore(run.body(), run.state(), DeviceTallies(compiled.devices()));
  for (std::int64_t body = run.body() + 1; body <= run.body() + result.cycle_batches; ++body)
    run_body(program, program.order(), body, CompiledRun::kEndless, machine);
  return timeline;
}

}  // namespace

CriticalPaths CriticalPaths::of_run(const Program& program, const CostTable& costs,
                                    std::int64_t batches) {
  check_traceable(program, "a run", batches);
  Timeline timeline;
  const Duration makespan = last_end(run_simulated(program, costs, batches, &timeline));
  return {program, costs, CriticalGraph::paths(program, BindingGraph(program, timeline), makespan),
          std::nullopt};
}

CriticalPaths CriticalPaths::of_endless_run(const Program& program, const CostTable& costs,
                                            const SimulationResult& result) {
  TANDEM_CHECK(result.exact_cycle);
  check_traceable(program, "a cycle", result.cycle_batches);
  const Timeline timeline = recorded_cycle(program, costs, result);
  return {program, costs,
          CriticalGraph::circuits(program, BindingGraph(program, timeline, result.cycle)),
          Cycle{result.cycle, result.cycle_batches}};
}

CriticalTime CriticalPaths::least_of(const std::vector<std::int64_t>& weights) const {
  if (!cycle_) return {Duration(graph_.least_on_a_path(weights)), 1};
  const CriticalGraph::Least least = graph_.least_on_a_circuit(weights, cycle_->time);
  return {Duration(least.time), least.cycles * cycle_->batches};
}

CriticalShare CriticalPaths::spent_on(const CostTable& share) const {
  std::vector<std::int64_t> weights;
  bool present = false;
  for (const CostId cost : ids(share)) {
    weights.push_back(share[cost].count());
    present = present || (weights.back() > 0 && graph_.has(cost));
  }
  CriticalShare spent;
  if (!present) return spent;
  spent.least = least_of(weights);
  for (std::int64_t& weight : weights) weight = -weight;
  spent.most = least_of(weights);
  spent.most.time = -spent.most.time;
  return spent;
}

Sensitivity CriticalPaths::spent_on(const Resource& resource) const {
  CostTable share(costs_->size());
  for (const CostId cost : ids(share)) {
    if (uses(resource, program_->cost_keys()[cost])) share[cost] = (*costs_)[cost];
  }
  return {spent_on(share), resource};
}

std::vector<Sensitivity> CriticalPaths::spent_on_resources() const {
  std::vector<Sensitivity> rows;
  for (const Resource& resource : resources(*program_)) rows.push_back(spent_on(resource));
  return rows;
}

std::vector<Sensitivity> CriticalPaths::spent_on_suspects() const {
  std::vector<Sensitivity> rows;
  for (const Resource& resource : resources(*program_)) {
    if (stands_alone(resource)) rows.push_back(spent_on(resource));
  }
  return rows;
}

CriticalShare CriticalPaths::spent_on(const LayerShares& shares,
                                      const std::vector<std::size_t>& layers) const {
  return spent_on(priced_share(*program_, *costs_, shares, layers));
}

std::vector<CriticalShare> CriticalPaths::spent_on_layers(const LayerShares& shares) const {
  const std::vector<StageId> stages = stages_of_layers(shares);
  std::vector<CriticalShare> rows;
  std::vector<std::size_t> distinct;  // of the stage at hand: layers that take the same are alike
  for (std::size_t layer = 0; layer < stages.size(); ++layer) {
    if (layer > 0 && stages[layer] != stages[layer - 1]) distinct.clear();
    const auto alike = std::ranges::find_if(
        distinct, [&](std::size_t other) { return shares.layers[other] == shares.layers[layer]; });
    const bool first = alike == distinct.end();
    rows.push_back(first ? spent_on(shares, {layer}) : rows[*alike]);
    if (first) distinct.push_back(layer);
  }
  return rows;
}

std::vector<Sensitivity> bottlenecks(const std::vector<Sensitivity>& rows) {
  std::vector<Sensitivity> found;
  for (const Sensitivity& row : rows) {
    if (stands_alone(row.resource) && row.most.time.count() > 0) found.push_back(row);
  }
  const auto key = [](const Sensitivity& row) {
    return std::pair(row.least.seconds_a_batch(), row.most.seconds_a_batch());
  };
  std::ranges::stable_sort(found, std::ranges::greater{}, key);
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
  const CostTable fast = faster(off);
  const SimulationResult beyond = simulate(program, fast, {});
  if (!beyond.exact_cycle) return std::nullopt;
  const auto paths = CriticalPaths::of_endless_run(program, fast, beyond);
  for (const Sensitivity& row : bottlenecks(paths.spent_on_suspects())) {
    if (row.resource != bottleneck.resource) return NextBottleneck{row.resource, off};
  }
  return std::nullopt;
}

}  // namespace tandem
