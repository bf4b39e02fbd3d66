#pragma once
// Devices by number, as short as tests of clusters need them.

#include <cstddef>

#include "core/base/ids.h"

namespace tandem::testing {

constexpr DeviceId d(std::size_t i) { return id_at<DeviceId>(i); }

}  // namespace tandem::testing
