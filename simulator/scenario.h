#pragma once
// Scenario: a schedule's program with its prices and its memory, from whatever source. Simulations
// and analyses read it; simulator/cost and planner/ make it.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/lower/lower.h"
#include "core/memory/framework_memory.h"
#include "core/memory/memory.h"
#include "core/memory/reserve.h"
#include "core/program/cost.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"
#include "simulator/contention/network.h"
#include "simulator/cost/layer_shares.h"
#include "simulator/cost/plain_costs.h"
#include "simulator/simulate.h"

namespace tandem {

/// What a sample of a model is, and who works at it.
struct ModelUse {
  std::int32_t tokens = 1;      // of a sample
  double flops = 0;             // of a sample, nothing computed again
  double flops_done = 0;        // with what is
  std::size_t devices = 1;      // of all pipelines
  double peak_flops_per_s = 0;  // of all of them, in the number format used
};

struct Scenario {
  Schedule schedule = {};
  Program program;
  CostTable costs = {};                                       // empty: not priced
  std::int32_t microbatch_size = 1;                           // samples
  double activation_after_input = 1.0;                        // G/A, see peak_activations()
  std::optional<Table<DeviceId, MemoryByClass>> memory = {};  // absent: nothing known in bytes
  std::optional<MemoryFigures> figures = {};                  // where `memory` is one of two
  std::optional<Table<DeviceId, Bytes>> capacity = {};        // of the devices; absent: no limit
  Reserve reserve = {};                                       // of it, which no plan may fill
  // What a stage keeps of one microbatch (slice), for curves, in bytes: `stash` where its slots are
  // known, `held` where activations are freed as they are used. Where `memory` is there, one is.
  std::optional<OfSlices<StashBytes>> stash = {};
  std::optional<OfSlices<HeldActivation>> held = {};
  std::optional<ModelUse> use = {};             // of a model on a cluster
  std::optional<Network> network = {};          // what shares links, where contention is simulated
  std::optional<LayerShares> layers = {};       // where prices are those of a model's layers
  std::optional<CostTable> healthy_costs = {};  // without perturbations and contention, where there
                                                // are any
  WeightSemantics weights = WeightSemantics::vanilla;

  /// Whether its bytes do. REQUIRES: `memory` and `capacity` are there.
  bool fits(DeviceId device) const {
    return (*memory)[device].total() <= reserve.usable((*capacity)[device]);
  }
  bool fits() const;
};

/// A schedule at plain costs. Throws InputError where the activations are absurdly large.
Scenario plain_scenario(Schedule schedule, const GivenCosts& costs, TransferLanes lanes);

/// With contention where the scenario has a network.
SimulationResult simulate(const Scenario& scenario, const SimulationRequest& request);

/// The same run with nothing wrong: no device or link is slower than it should be, and nothing is
/// shared. Empty: nothing is wrong.
std::optional<SimulationResult> simulate_healthy(const Scenario& scenario, std::int64_t batches);

/// Samples a second of the endless run, all pipelines together; 0 where it takes no time.
double samples_per_s(const Scenario& scenario, const SimulationResult& result);

}  // namespace tandem
