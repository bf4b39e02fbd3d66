#pragma once
// What `simulate` is asked about, from whatever source: a plan and its profile, a model on a
// cluster, a file of costs, or plain costs.

#include <optional>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/reserve.h"
#include "core/program/cost.h"
#include "core/schedule/schedule.h"
#include "simulator/contention/network.h"
#include "simulator/cost/layer_shares.h"
#include "simulator/simulate.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/options/order_search.h"

namespace tandem::tools {

/// What a sample is, and who works at it.
struct ClusterUse {
  std::int32_t tokens = 1;      // of a sample
  double flops = 0;             // of a sample, nothing computed again
  double flops_done = 0;        // with what is
  std::size_t devices = 1;      // all pipelines' devices
  double peak_flops_per_s = 0;  // of all of them, in the number format used
  std::string summary = {};     // model, cluster, shape
  std::vector<std::string> assumptions = {};
};

struct Scenario {
  Schedule schedule;
  Program program;
  CostTable costs;
  std::int32_t microbatch_size = 1;
  double activation_after_input = 1.0;                   // G/A
  std::optional<Table<DeviceId, MemoryByClass>> memory;  // absent: nothing is known in bytes
  std::optional<Table<DeviceId, Bytes>> capacity;
  Reserve reserve = {};  // of it
  // What a stage keeps of one microbatch, for curves: `stash` where its slots are known, `held`
  // where only activations are given, in bytes; where `memory` is there, one of them is.
  std::optional<Table<StageId, Bytes>> stash;
  std::optional<Table<StageId, HeldActivation>> held = {};
  std::optional<OrderSearch> search;       // of the schedule `search`
  std::optional<ClusterUse> use = {};      // of a model on a cluster
  std::optional<Network> network = {};     // with --contention: what shares links
  std::optional<LayerShares> layers = {};  // where prices are those of a model's layers
  std::vector<std::string> warnings = {};
  Json config, assumptions;
  WeightSemantics weights = WeightSemantics::vanilla;
  /// Options that say what isn't as it should be, and prices without them; empty: all is well.
  std::vector<std::string> troubles = {};
  CostTable healthy_costs = {};

  /// Whether its bytes do. REQUIRES: `memory` and `capacity` are there.
  bool fits(DeviceId device) const {
    return (*memory)[device].total() <= reserve.usable((*capacity)[device]);
  }
};

/// The options of the sources above, and how many batches are run.
void add_scenario_options(Options& options);

/// As --batches says, or one. Throws UsageError.
std::int64_t batches_of(const Options& options, std::int64_t most = 1'000'000'000'000);

/// Throws UsageError, InputError.
Scenario make_scenario(const Options& options);

SimulationResult simulate(const Scenario& scenario, const SimulationRequest& request);

}  // namespace tandem::tools
