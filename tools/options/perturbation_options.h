#pragma once
// --slow-device, --straggler and --degraded-link.

#include <string>
#include <string_view>
#include <vector>

#include "planner/study/perturbation.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_perturbation_options(Options& options);

/// Throws UsageError.
std::vector<Perturbation> perturbations_of(const Options& options);

/// "1.5" or "1.5x": of the time at least 1, of a speed or a rate at most 1, whichever `flag`, the
/// option that it is a part of, takes. Throws UsageError.
double factor_of(const Options& options, const std::string& flag, std::string_view text);

}  // namespace tandem::tools
