#include "planner/cluster/objective.h"

#include <array>

#include "core/base/ids.h"

namespace tandem {

std::string_view name(Objective objective) {
  constexpr std::array<std::string_view, kObjectives> kNames{"throughput", "memory", "cost"};
  return kNames[static_cast<std::size_t>(objective)];
}

DevicePrices::DevicePrices(const Cluster& cluster) : usd_per_s_{0.0} {
  constexpr double kSecondsAnHour = 3600.0;
  for (std::size_t device = 0; device < cluster.size(); ++device) {
    const DeviceSpec& kind = cluster[id_at<DeviceId>(device)];
    if (!kind.usd_per_hour) {
      unpriced_ = &kind;
      return;
    }
    usd_per_s_.push_back(usd_per_s_.back() + *kind.usd_per_hour / kSecondsAnHour);
  }
}

std::optional<double> DevicePrices::usd_per_s(std::size_t devices) const {
  if (devices >= usd_per_s_.size()) return std::nullopt;
  return usd_per_s_[devices];
}

}  // namespace tandem
