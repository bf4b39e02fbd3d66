#pragma once
// What is made of the rows of a sweep, run or merged.

#include "tools/cli/options.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

void add_report_options(Options& options);

/// Throws UsageError, and DeviceError where a file can't be written.
SweepReportRequest report_request(const Options& options);

}  // namespace tandem::tools
