#pragma once
// What `simulate` is asked about, from whatever source: a plan and its profile, a model on a
// cluster, a file of costs, or plain costs. The same for `check`, `sweep` and `explain`.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/study/scenario_request.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// The options of the sources above, and how many batches are run.
void add_scenario_options(Options& options);

void add_semantics_option(Options& options);
/// Whether only schedules are asked for that train as one device would. Throws UsageError.
bool vanilla_only(const Options& options);

/// As --batches says, or one. Throws UsageError.
std::int64_t batches_of(const Options& options, std::int64_t most = 1'000'000'000'000);

/// Throws UsageError, InputError.
ScenarioRequest scenario_request(const Options& options);

/// Whether --schedule names several.
bool names_several_schedules(const Options& options);
/// One of each schedule that --schedule names. Plain costs are those of a device, unless
/// --costs-per says otherwise, so that schedules of one and of several stages a device do the same
/// work. Throws UsageError, InputError.
std::vector<ScenarioRequest> scenario_requests(const Options& options);

/// The same for `check`, of which no prices are asked.
ScenarioRequest check_request(const Options& options);

/// Ends searches when a stop is asked for, and counts their time.
SearchWatch search_watch(std::stop_token stop);

/// prepare_scenario(), in which Ctrl-C ends a search with the best so far.
PreparedScenario prepare(const ScenarioRequest& request);

}  // namespace tandem::tools
