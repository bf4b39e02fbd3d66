#pragma once
// A simulation's result, for people and as JSON (interfaces: `simulate --json`).

#include <string>
#include <vector>

#include "simulator/simulate.h"
#include "tools/scenario.h"

namespace tandem::tools {

void print_summary(const Scenario& scenario, const SimulationResult& result, std::int64_t batches);
Json result_json(const Scenario& scenario, const SimulationResult& result);
std::vector<std::string> warnings_of(const SimulationResult& result);

}  // namespace tandem::tools
