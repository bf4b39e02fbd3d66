#pragma once
// The same run with nothing wrong: without --slow-device, --straggler, --degraded-link and
// --contention. What these cost is the difference.

#include <optional>
#include <string>

#include "planner/study/scenario_request.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// A line that says what they cost; empty where there is no healthy run.
std::string difference_line(const ScenarioRequest& request, const Scenario& scenario,
                            const SimulationResult& result,
                            const std::optional<SimulationResult>& healthy);
/// Of an endless run, 0.25 where a batch takes a quarter longer than it should.
double slower_by(const SimulationResult& result, const SimulationResult& healthy);
Json healthy_json(const ScenarioRequest& request, const Scenario& scenario,
                  const SimulationResult& result, const SimulationResult& healthy);

}  // namespace tandem::tools
