#include "planner/published/graph_plan.h"

#include <cmath>
#include <numeric>
#include <set>

#include "core/lower/lower.h"
#include "core/schedules/all.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/run_figures.h"

namespace tandem {

namespace {

Duration seconds_of(double seconds) { return Duration(std::llround(seconds * 1e9)); }

/// What the layers of the stages so far send to others.
double crossing_bytes(const LayerGraph& graph, const std::set<std::size_t>& before) {
  std::set<std::size_t> senders;
  for (const auto& [from, to] : graph.edges) {
    if (before.contains(from) && !before.contains(to)) senders.insert(from);
  }
  double bytes = 0.0;
  for (const std::size_t layer : senders) bytes += static_cast<double>(graph.layers[layer].output);
  return bytes;
}

StageCosts costs_of(const LayerGraph& graph, const PipeDreamPlan& plan, double bytes_per_s,
                    const Placement& placement) {
  StageCosts costs;
  std::set<std::size_t> before;
  std::vector<Duration> links;  // behind each stage
  for (const PipeDreamStage& stage : plan.stages) {
    StageTimes times;
    double parameters = 0.0;
    for (const std::size_t layer : stage.layers) {
      before.insert(layer);
      times.forward += graph.layers[layer].forward;
      times.backward += graph.layers[layer].backward;
      parameters += static_cast<double>(graph.layers[layer].parameters);
    }
    const double replicas = stage.replicas;
    times.reduce = seconds_of(4.0 * (replicas - 1.0) / replicas * parameters / bytes_per_s);
    costs.stages.push_back(times);
    links.push_back(seconds_of(crossing_bytes(graph, before) / bytes_per_s));
  }
  costs.ways.assign(std::size_t{placement.devices} * placement.devices, Duration{});
  for (const Placement::Edge& edge : placement.edges) {
    const std::size_t from = index(placement.device[edge.from]),
                      to = index(placement.device[edge.to]);
    const Duration link = links[index(placement.stage[edge.from])];
    costs.ways[from * placement.devices + to] = link;
    costs.ways[to * placement.devices + from] = link;
  }
  return costs;
}

}  // namespace

double simulated_microbatch_s(const LayerGraph& graph, const PipeDreamPlan& plan,
                              double bytes_per_s) {
  ScheduleRequest request;
  request.devices = 0;
  request.microbatches = 1;
  for (const PipeDreamStage& stage : plan.stages) {
    request.replicas.push_back(static_cast<std::uint16_t>(stage.replicas));
    request.devices = static_cast<std::uint16_t>(request.devices + stage.replicas);
    request.microbatches = std::lcm(request.microbatches, stage.replicas);
  }
  const Schedule schedule = make_schedule(find_schedule("pipedream"), request);
  const Program program = lower(schedule);
  const CompiledProgram compiled(program);
  const StageCosts costs = costs_of(graph, plan, bytes_per_s, schedule.placement);
  const CostTable prices = price(program, cost_model(schedule.placement, costs));
  return simulated_period_s(program, compiled, prices) / request.microbatches;
}

}  // namespace tandem
