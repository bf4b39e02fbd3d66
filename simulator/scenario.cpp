#include "simulator/scenario.h"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/user_schedule.h"
#include "simulator/contention/contended.h"

namespace tandem {

namespace {

/// Bytes that devices hold when only activations have a size.
Table<DeviceId, MemoryByClass> activation_memory(const Program& program,
                                                 const OfSlices<HeldActivation>& held) {
  Table<DeviceId, MemoryByClass> memory;
  constexpr double kMost = 0x1p60;
  for (const double bytes : peak_held(program, held)) {
    if (bytes > kMost) {
      throw InputError(
          fmt::format("a device would hold activations of {:.3g} bytes: expected at most {:.3g}",
                      bytes, kMost));
    }
    memory.push_back({.activations = static_cast<Bytes>(std::llround(bytes))});
  }
  return memory;
}

/// Of each slice its share.
std::vector<HeldActivation> held_of_slices(const GivenCosts& costs, StageId stage) {
  const HeldActivation& whole = costs.held[stage];
  if (costs.slices.empty()) return {whole};
  std::vector<HeldActivation> held;
  for (const double share : costs.slices)
    held.push_back({share * whole.all, share * whole.after_input, share * whole.remade});
  return held;
}

SimulationRequest with_activations(const Scenario& scenario, SimulationRequest request) {
  request.activation_after_input = scenario.activation_after_input;
  return request;
}

}  // namespace

bool Scenario::fits() const {
  for (const DeviceId device : ids(*memory)) {
    if (!fits(device)) return false;
  }
  return true;
}

Scenario plain_scenario(Schedule schedule, const GivenCosts& costs, TransferLanes lanes) {
  Program program = lower(schedule, lanes);
  Scenario scenario{.schedule = std::move(schedule),
                    .program = std::move(program),
                    .activation_after_input = costs.activation_after_input};
  const Placement& placement = scenario.program.placement();
  if (costs.sized) {
    OfSlices<HeldActivation> held;
    for (const StageId stage : placement.stage) held.push_back(held_of_slices(costs, stage));
    scenario.memory = activation_memory(scenario.program, held);
    scenario.held = std::move(held);
  }
  scenario.costs = price(scenario.program, cost_model(placement, costs.times));
  scenario.weights = weight_semantics(scenario.schedule);
  return scenario;
}

SimulationResult simulate(const Scenario& scenario, const SimulationRequest& request) {
  const SimulationRequest asked = with_activations(scenario, request);
  if (scenario.network)
    return simulate_contended(scenario.program, scenario.costs, *scenario.network, asked);
  return simulate(scenario.program, scenario.costs, asked);
}

std::optional<SimulationResult> simulate_healthy(const Scenario& scenario, std::int64_t batches) {
  if (!scenario.healthy_costs) return std::nullopt;
  return simulate(scenario.program, *scenario.healthy_costs,
                  with_activations(scenario, {.batches = batches}));
}

double samples_per_s(const Scenario& scenario, const SimulationResult& result) {
  const Program& program = scenario.program;
  const double samples = static_cast<double>(program.microbatches() / program.slices()) *
                         scenario.microbatch_size * scenario.schedule.width;
  return result.cycle.count() == 0 ? 0.0 : samples / result.period_s();
}

}  // namespace tandem
