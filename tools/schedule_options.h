#pragma once
// The options that describe a schedule, shared by `schedule`, `simulate` and `plan`.

#include "core/schedule.h"
#include "tools/options.h"

namespace tandem::tools {

/// --devices, --microbatches, --width, --recompute and what single schedules take.
void add_schedule_options(Options& options);

/// The request, with the defaults of the contract. Throws UsageError for an option that the
/// schedule does not have.
ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits);

}  // namespace tandem::tools
