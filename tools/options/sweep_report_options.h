#pragma once
// What is made of the rows of a sweep, run or merged.

#include <string>

#include "tools/cli/options.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

void add_report_options(Options& options);

/// `csv`, `svg`: where they are written; empty: nowhere. Throws UsageError, and DeviceError where a
/// file can't be written.
SweepReportRequest report_request(const Options& options, std::string csv, std::string svg);

}  // namespace tandem::tools
