#pragma once
// A simulation's result, and that of a search of orders, for people and as JSON (interfaces:
// `simulate --json`).

#include <optional>
#include <string>
#include <vector>

#include "planner/study/scenario_request.h"
#include "planner/study/timed_search.h"
#include "planner/study/uncertainty.h"
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
/// "8 microbatches", "8 microbatches of 4 slices": of a batch.
std::string batch_text(const Program& program);

/// A table of what each device holds; a line on what "fits" means.
void print_memory(const Scenario& scenario);
/// `healthy`: the same run without --slow-device, --straggler, --degraded-link and --contention,
/// where there are any: what these cost is the difference.
void print_summary(const ScenarioRequest& request, const PreparedScenario& prepared,
                   const SimulationResult& result, std::int64_t batches,
                   const std::optional<SimulationResult>& healthy);
Json result_json(const ScenarioRequest& request, const PreparedScenario& prepared,
                 const SimulationResult& result, const std::optional<SimulationResult>& healthy);
std::vector<std::string> warnings_of(const ScenarioRequest& request,
                                     const PreparedScenario& prepared,
                                     const SimulationResult& result);

/// How the time of a batch varies.
void print_spread(const Spread& spread);
Json spread_json(const Spread& spread);

/// What the schedule `search` found, some lines for people.
std::string search_text(const OrderSearch& search);
Json search_json(const OrderSearch& search);

/// The exit code; says on stderr that it was interrupted, if it was.
int search_exit_code(const OrderSearch& search);

}  // namespace tandem::tools
