#pragma once
// What `simulate` is asked about, from whatever source: a plan and its profile, a model on a
// cluster, a file of costs, or plain costs. The same for `check`, `sweep` and `explain`.

#include <span>
#include <stop_token>
#include <vector>

#include "planner/study/scenario_request.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

/// --schedule, --schedule-file, --semantics.
std::span<const ScenarioOption> scenario_rows();
/// How a scenario is run, whatever it is of, and in how much memory.
std::span<const ScenarioOption> run_rows();
/// The options of the sources above, and how many batches are run.
void add_scenario_options(Options& options);

/// Throws UsageError, InputError.
ScenarioRequest scenario_request(const GivenOptions& given);

/// Whether --schedule names several.
bool names_several_schedules(const Options& options);
/// One of each schedule that --schedule names. Plain costs are those of a device, unless
/// --costs-per says otherwise, so that schedules of one and of several stages a device do the same
/// work. Throws UsageError, InputError.
std::vector<ScenarioRequest> scenario_requests(const GivenOptions& given);

/// The same for `check`, of which no prices are asked.
ScenarioRequest check_request(const GivenOptions& given);

/// Ends searches when a stop is asked for, and counts their time.
SearchWatch search_watch(std::stop_token stop);

/// prepare_scenario(), in which Ctrl-C ends a search with the best so far.
PreparedScenario prepare(const ScenarioRequest& request);

}  // namespace tandem::tools
