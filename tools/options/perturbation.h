#pragma once
// Devices and links that are not what they should be: slower by a known factor.

#include <string>
#include <string_view>

#include "core/program/cost.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// --slow-device, --straggler and --degraded-link.
void add_perturbation_options(Options& options);

/// The prices with what they say; also noted in `config`. Orders that were searched by prices stay
/// as they are. Throws UsageError, and InputError for a link that nothing is sent over.
CostTable perturbed(const Options& options, const Program& program, CostTable costs, Json& config);

/// "1.5" or "1.5x": of the time at least 1, of a speed or a rate at most 1, whichever `name`, the
/// option that it is a part of, takes. Throws UsageError.
double factor_of(const Options& options, const std::string& name, std::string_view text);

}  // namespace tandem::tools
