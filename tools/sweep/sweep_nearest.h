#pragma once
// Where nothing of a sweep fits: what is nearest, and what would make it fit.

#include <string>
#include <vector>

#include "tools/sweep/sweep_row.h"
#include "tools/sweep/sweep_space.h"

namespace tandem::tools {

/// Some lines about those that need least memory. Empty: something fits, or nothing is known.
std::string nearest_misses(const SweepSpace& space, const std::vector<SweepRow>& rows);

}  // namespace tandem::tools
