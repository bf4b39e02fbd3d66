#pragma once
// What limits a scenario: its bottleneck and the next one, and what each device, link, kind of op
// and layer would gain if it were faster.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// Of a layer, or of several together.
struct LayerGain {
  std::vector<std::size_t> layers;
  std::optional<CriticalShare> period = {};  // absent: no repetition was seen
  CriticalShare makespan = {};
};

struct LayerGains {
  std::vector<LayerKind> kinds;        // of each layer
  std::vector<StageId> stages;         // that hold them
  std::vector<LayerGain> each;         // in order
  std::vector<LayerGain> alike = {};   // all of a kind together, of each kind
  std::vector<LayerGain> most = {};    // of a few layers, those that gain most
  std::optional<LayerGain> rest = {};  // all other layers together, where there are any
};

/// "layer 3, mlp", "24 attention layers".
std::string name(const LayerGains& gains, const LayerGain& gain);

struct Sensitivities {
  std::optional<std::vector<Sensitivity>> period = {};  // absent: no repetition was seen
  std::vector<Sensitivity> makespan = {};
  Bottlenecks bottlenecks = {};
  std::optional<LayerGains> layers = {};  // where a model's are known
};

/// Throws InputError where critical paths say nothing exact, or are too long to follow.
Sensitivities sensitivities_of(const Scenario& scenario, const SimulationResult& result,
                               std::int64_t batches);

}  // namespace tandem
