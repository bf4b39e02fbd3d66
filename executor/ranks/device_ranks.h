#pragma once
// Which rank of a run runs which of its devices, numbered through all pipelines.

#include <cstdint>
#include <string_view>

#include "executor/run/communicator_plans.h"

namespace tandem {

/// Consecutive devices to each rank, as even as can be: pipelines of one width side by side. Throws
/// InputError where there are more ranks than devices.
DeviceRanks even_device_ranks(std::size_t devices, std::int32_t ranks);

/// "0-1/2,3": the devices of rank 0, those of rank 1. Throws InputError, naming the place, unless
/// each device stands there once and each of `ranks` has one.
DeviceRanks parse_device_ranks(std::string_view text, std::size_t devices, std::int32_t ranks);

}  // namespace tandem
