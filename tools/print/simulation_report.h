#pragma once
// A simulation's result, for people and as JSON (interfaces: `simulate --json`).

#include <string>
#include <vector>

#include "planner/study/scenario_request.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// Shares of the run, all of the busiest device. The rate counts all but forwards and backwards:
/// what is not idle of it is recomputation and updates.
struct BubbleRate {
  double of_run = 0.0, idle = 0.0;
};
BubbleRate bubble_rate(const SimulationResult& result);
/// "12.3 %".
std::string print_percent(double share);

/// `difference`: a line on what the run loses to what is wrong, or nothing.
void print_summary(const ScenarioRequest& request, const PreparedScenario& prepared,
                   const SimulationResult& result, std::int64_t batches,
                   const std::string& difference);
Json result_json(const PreparedScenario& prepared, const SimulationResult& result);
std::vector<std::string> warnings_of(const ScenarioRequest& request,
                                     const PreparedScenario& prepared,
                                     const SimulationResult& result);

}  // namespace tandem::tools
