#pragma once
// Bottlenecks and sensitivities, for people and as JSON.

#include "planner/study/sensitivities.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

void print_bottlenecks(const Bottlenecks& bottlenecks);
Json bottlenecks_json(const Bottlenecks& bottlenecks);

void print_sensitivity(const Sensitivities& sensitivities, const SimulationResult& result);
Json sensitivity_json(const Sensitivities& sensitivities);

}  // namespace tandem::tools
