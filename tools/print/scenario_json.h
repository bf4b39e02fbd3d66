#pragma once
// What a simulation was asked for, and what it rests on, as JSON.

#include <array>
#include <string_view>

#include "planner/study/scenario_request.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// What was resolved.
Json config_json(const ScenarioRequest& request, const PreparedScenario& prepared);

/// How it is run: lanes, transfers, contention.
struct Assumption {
  std::string_view key, text;
};
std::array<Assumption, 3> run_assumptions(const ScenarioRequest& request,
                                          const PreparedScenario& prepared);
/// What is assumed.
Json assumptions_json(const ScenarioRequest& request, const PreparedScenario& prepared);

}  // namespace tandem::tools
