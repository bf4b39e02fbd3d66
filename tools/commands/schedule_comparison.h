#pragma once
// tandem simulate --schedule A,B,C: several schedules at the same costs, and from how many
// microbatches on another one is the fastest.

#include <cstdint>

#include "tools/options/given_options.h"

namespace tandem::tools {

/// Prints the comparison of runs of `batches`, for people or as JSON. Plain costs are those of a
/// device, unless
/// --costs-per says otherwise, so that schedules of one and of several stages a device do the same
/// work. A schedule that can't serve the request is listed with the reason. Throws UsageError, and
/// InputError when none can.
int compare_schedules(const Options& options, const GivenOptions& given);

}  // namespace tandem::tools
