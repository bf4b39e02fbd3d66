#pragma once
// simulate(): a program and its prices → time, bubbles and use of each device, exact for a run of
// any length. No op is run twice for a longer run: see SimulationResult::cycle.
//
//   const Program program = lower(make_schedule(find_schedule("2bw"), request));
//   const CostTable prices = price(program, cost_model(program.placement(), costs));
//   const SimulationResult result = simulate(program, prices, {.batches = 100});
//
// Simulated time is that of an event-driven machine that runs the program: an op
// starts once its lanes are free and what it waits for has ended, and ends its price later.

#include <cstdint>

#include "core/memory/memory.h"
#include "core/program/cost.h"
#include "core/program/program.h"
#include "simulator/simulation_result.h"

namespace tandem {

/// How long a run is simulated, and what of it is kept.
struct SimulationRequest {
  std::int64_t batches = 1;             // updates; ≥ 1
  bool record = false;                  // keep the timeline: every op of the run, so for short runs
  double activation_after_input = 1.0;  // G/A, share of an activation that is held between the
                                        // gradients of input and weights; see peak_activations()
};

/// A million batches cost no more than the transient, one cycle and the end; with `record` all of
/// them are run. Deterministic. REQUIRES: `costs` has a row for each of program.cost_keys(), as
/// price() makes it. Throws InputError when the run would last longer than 292 years, and
/// Interrupted where the caller asks for an end while it runs.
SimulationResult simulate(const Program& program, const CostTable& costs,
                          const SimulationRequest& request);

}  // namespace tandem
