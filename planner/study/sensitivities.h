#pragma once
// What limits a scenario: its bottleneck and the next one, and what each device, link, kind of op
// and layer would gain if it were faster.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/study/layer_gains.h"
#include "simulator/analysis/sensitivity.h"
#include "simulator/scenario.h"

namespace tandem {

/// Whether all critical paths spend time on it, so that it alone may limit the run.
bool limits_all_paths(const Sensitivity& row);

struct Bottlenecks {
  bool endless = true;                      // of the endless run, or else of a run with an end
  double whole_s = 0.0;                     // a batch of the one, or all of the other
  std::vector<Sensitivity> order = {};      // simulator/analysis/sensitivity.h, bottlenecks()
  std::optional<NextBottleneck> next = {};  // where only one resource gains anything
};

/// Of the endless run. Empty where critical paths say nothing exact, and where following them would
/// take longer than a simulation is worth.
std::optional<Bottlenecks> bottlenecks_of(const Scenario& scenario, const SimulationResult& result);

struct Sensitivities {
  std::optional<std::vector<Sensitivity>> period;  // absent: no repetition was seen
  std::vector<Sensitivity> makespan;
  Bottlenecks bottlenecks = {};
  std::optional<LayerGains> layers = {};  // where a model's are known
};

/// Throws InputError where critical paths say nothing exact, or are too long to follow.
Sensitivities sensitivities_of(const Scenario& scenario, const SimulationResult& result,
                               std::int64_t batches);

}  // namespace tandem
