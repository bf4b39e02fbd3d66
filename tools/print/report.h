#pragma once
// simulate --report: the page or picture of a run, and the runs beside it that a page compares it
// with.

#include <string>
#include <string_view>

#include "planner/study/scenario_request.h"

namespace tandem::tools {

/// Throws UsageError unless the file's name ends in .html or .svg, DeviceError when it can't be
/// written; changes nothing. `command` is whose --report it is.
void check_can_report(const std::string& path, std::string_view command = "simulate");

/// Writes a report. A page also holds variations: the same run with other times of transfers,
/// and, where names say what is run, other microbatches or samples a batch and other schedules;
/// those that are refused, or too large to draw beside the others, are left out. REQUIRES: `result`
/// is the scenario's, with its timeline. `command`: the one that was given.
void write_report(const std::string& path, const std::string& command,
                  const ScenarioRequest& request, const PreparedScenario& prepared,
                  const SimulationResult& result, const SimulationRequest& simulated);

}  // namespace tandem::tools
