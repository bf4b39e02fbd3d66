#pragma once
// What --sensitivity says: the bottleneck and the next one, and what each device, link, kind of op
// and layer would gain if it were faster.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/sensitivity.h"
#include "tools/layer_gains.h"
#include "tools/scenario.h"

namespace tandem::tools {

struct Sensitivities {
  std::optional<std::vector<Sensitivity>> period;  // absent: no repetition was seen
  std::vector<Sensitivity> makespan;
  std::optional<NextBottleneck> next = {};  // where only one resource gains anything
  std::optional<LayerGains> layers = {};    // where a model's are known
};

/// Throws InputError where critical paths say nothing exact, or are too long to follow.
Sensitivities sensitivities_of(const Scenario& scenario, const SimulationResult& result,
                               std::int64_t batches);

void print_sensitivity(const Sensitivities& sensitivities, const SimulationResult& result);
Json sensitivity_json(const Sensitivities& sensitivities);

}  // namespace tandem::tools
