#pragma once
// Device memory that no plan may fill: what the driver and libraries take, and the allocator's
// gaps.

#include <string>

#include "core/base/units.h"

namespace tandem {

struct Reserve {
  double share = 0.0;  // of the device's memory
  Bytes bytes = 0;     // and so many

  /// What is left of a device's memory.
  Bytes usable(Bytes capacity) const;
  bool none() const { return share == 0.0 && bytes == 0; }
  friend bool operator==(const Reserve&, const Reserve&) = default;
};

/// "6 % of a device's memory", "2.0 GiB of a device's memory", "nothing".
std::string describe(const Reserve& reserve);

}  // namespace tandem
