#pragma once
// What fits near to what doesn't, in words: what `check` says, and `simulate` and `sweep` where
// nothing fits.

#include <string>
#include <vector>

#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "planner/cluster/cluster_setup.h"

namespace tandem::tools {

/// A line each, the fewest changes first: the options to give instead of those given, and what the
/// fullest device then needs. Empty: nothing near fits.
std::vector<std::string> near_fits(const ClusterSetup& setup);

/// Of a plan: what of it is to be changed. REQUIRES: one stage a device.
std::vector<std::string> near_fits(const Plan& plan, Bytes limit, Storage storage);

}  // namespace tandem::tools
