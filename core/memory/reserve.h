#pragma once
// Device memory that no plan may fill: what the driver and libraries take, and the allocator's
// gaps.

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/base/units.h"

namespace tandem {

struct Reserve {
  double share = 0.0;  // of the device's memory
  Bytes bytes = 0;     // and so many

  /// What is left of a device's memory.
  Bytes usable(Bytes capacity) const {
    const Bytes part = std::llround(share * static_cast<double>(capacity));
    return std::max<Bytes>(0, capacity - part - bytes);
  }
  bool none() const { return share == 0.0 && bytes == 0; }
  friend bool operator==(const Reserve&, const Reserve&) = default;
};

/// "6 % of a device's memory", "2.0 GiB of a device's memory", "nothing".
inline std::string describe(const Reserve& reserve) {
  if (reserve.none()) return "nothing";
  return (reserve.bytes > 0 ? print_bytes(reserve.bytes)
                            : fmt::format("{:.4g} %", 100.0 * reserve.share)) +
         " of a device's memory";
}

}  // namespace tandem
