#include "planner/cluster/trade_offs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace tandem {

ClusterQuestion with_memory_of(ClusterQuestion question, Bytes most) {
  ClusterSpec spec = question.base.cluster->spec();
  for (DeviceSpec& device : spec.devices)
    device.memory_bytes =
        std::min(most, question.base.assumptions.reserve.usable(device.memory_bytes));
  question.base.assumptions.reserve = {};
  if (question.base.memory) question.base.memory = spec.devices.front().memory_bytes;
  question.base.cluster = std::make_shared<const Cluster>(spec);
  return question;
}

/// Empty: none fits, or it was stopped.
static std::optional<ClusterCandidate> best_of(const ClusterQuestion& question,
                                               const std::function<bool()>& stop) {
  if (stop && stop()) return std::nullopt;
  ClusterAnswer answer = find_cluster_plans(question, stop);
  if (answer.ranked.empty() || answer.interrupted) return std::nullopt;
  return std::move(answer.ranked.front());
}

std::vector<ClusterCandidate> plans_by_memory(const ClusterQuestion& question,
                                              const ClusterCandidate& best,
                                              const std::function<bool()>& stop) {
  std::vector<ClusterCandidate> plans{best};
  for (;;) {
    const Bytes most = plans.back().peak_bytes / 10 * 9;
    std::optional<ClusterCandidate> next = best_of(with_memory_of(question, most), stop);
    if (!next) return plans;
    plans.push_back(std::move(*next));
  }
}

std::vector<ClusterCandidate> plans_by_devices(const ClusterQuestion& question,
                                               const ClusterCandidate& best,
                                               const std::function<bool()>& stop) {
  std::vector<ClusterCandidate> plans{best};
  for (std::int64_t devices = question.devices() / 2; devices >= 1; devices /= 2) {
    if (static_cast<std::size_t>(devices) >= plans.back().devices) continue;
    ClusterQuestion fewer = question;
    fewer.most_devices = devices;
    std::optional<ClusterCandidate> next = best_of(fewer, stop);
    if (!next) return plans;
    plans.push_back(std::move(*next));
  }
  return plans;
}

}  // namespace tandem
