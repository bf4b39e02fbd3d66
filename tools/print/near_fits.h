#pragma once
// What fits near to what doesn't, in words: what `check` says of a plan, `plan` of the nearest it
// found, and `simulate` and `sweep` where nothing fits.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/reserve.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "planner/cluster/cluster_setup.h"

namespace tandem::tools {

/// A line each, the fewest changes first: the options to give instead of those given, and what the
/// fullest device then needs. Empty: nothing near fits.
std::vector<std::string> near_fits(const ClusterSetup& setup);

/// Of a plan: what of it is to be changed.
std::vector<std::string> near_fits(const Plan& plan, Bytes limit, Storage storage);

/// Below a text that says what doesn't fit: "; these fit:", or `heading` in place of that, and a
/// line each; or that none does.
std::string offers_text(const std::vector<std::string>& near, std::string_view heading);
inline constexpr std::string_view kOfPlans = "these fit", kOfOptions = "these options fit instead";

/// "does not fit in 16 GiB a device, 6 % … in reserve: device 1 needs …".
std::string miss_text(const MemoryMiss& miss, Bytes capacity, const Reserve& reserve,
                      std::optional<FitsBy> by);

}  // namespace tandem::tools
