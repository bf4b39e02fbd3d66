#pragma once
// Objective: what the plan that is looked for has the least of.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/model/cluster.h"

namespace tandem {

/// Of a plan, the less the better.
enum class Objective : std::uint8_t {
  throughput,  // seconds of a step: the batch is given
  memory,      // bytes of the fullest device
  cost,        // US dollars of a step, of all devices that the plan uses
};
inline constexpr std::size_t kObjectives = 3;
/// "throughput", "memory", "cost".
std::string_view name(Objective objective);

/// Prices of the first so many devices of a cluster.
class DevicePrices {
 public:
  explicit DevicePrices(const Cluster& cluster);

  /// US dollars; empty: one of them has no price.
  std::optional<double> usd_per_s(std::size_t devices) const;
  /// The first kind that has none.
  const DeviceSpec* unpriced() const { return unpriced_; }

 private:
  std::vector<double> usd_per_s_;  // of so many devices; ends before the first without a price
  const DeviceSpec* unpriced_ = nullptr;
};

}  // namespace tandem
