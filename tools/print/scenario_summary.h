#pragma once
// What a simulation was asked for, and what it rests on: as JSON, and of a model on a cluster in
// words.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/study/scenario_request.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// "gpt2-xl (1.558 G parameters) on 64 of 64 devices of 8xp3.16xlarge: …".
std::string cluster_summary(const ClusterSetup& setup);
/// What was resolved.
Json cluster_config(const ClusterSetup& setup);

/// Where and when it was measured.
Json origin_json(const Profile& profile);

/// What is assumed. `request`: of the simulation.
Json cluster_assumptions(const ScenarioRequest& request, const ClusterSetup& setup);
/// The same for people, a line each.
std::vector<std::string> assumption_lines(const ScenarioRequest& request,
                                          const ClusterSetup& setup);
/// Below a heading, as wide as the terminal.
void print_assumptions(const ScenarioRequest& request, const ClusterSetup& setup);

/// What was resolved.
Json config_json(const ScenarioRequest& request, const PreparedScenario& prepared);

/// What shares links in a simulation on a cluster.
std::string_view contention_text(bool contention);

/// How it is run: lanes, transfers, contention.
struct Assumption {
  std::string_view key, text;
};
std::array<Assumption, 3> run_assumptions(const ScenarioRequest& request,
                                          const PreparedScenario& prepared);
/// What is assumed.
Json assumptions_json(const ScenarioRequest& request, const PreparedScenario& prepared);

}  // namespace tandem::tools
