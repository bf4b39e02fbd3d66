#pragma once
// Where nothing of a sweep fits: what is nearest, and what would make it fit.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

/// Some lines about those that need least memory. Empty: something fits, or nothing is known.
/// `request`: of a configuration.
std::string nearest_misses(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                           const std::function<ScenarioRequest(std::size_t)>& request);

}  // namespace tandem::tools
