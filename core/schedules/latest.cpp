// 1F1B that never drains and keeps no version for a microbatch: a forward and a backward each read
// the newest weights of their stage (PACI, arXiv 2606.07881). Each stage counts its own backwards
// and updates after every m-th. The backward goes by the activations that the forward left and by
// weights that may be newer, so that what it makes is the gradient of no one version. PipeMare
// (arXiv 1910.05124) corrects those newer weights by how weights changed before.

#include <cmath>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

/// Updates of a stage between the version that is newest as the forward of microbatch `k` runs,
/// `ahead` backwards before its own, and the version that its backward finds.
static std::uint16_t forward_staleness(std::int32_t k, std::int32_t ahead, std::int32_t m) {
  return static_cast<std::uint16_t>((ahead - k % m + m - 1) / m);
}

Schedule make_latest(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  schedule.reads_newest = true;
  const std::int32_t m = request.microbatches;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const auto ahead = static_cast<std::int32_t>(request.devices - 1 - index(replica));
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t i = 0; i < m; ++i) {
      const std::int32_t next = i + ahead;
      order.push_back(forward(replica, next, forward_staleness(next, ahead, m)));
      order.push_back(backward(replica, i));
    }
    order.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

// The mean over the microbatches of an update of the updates between a forward's version and its
// backward's is exactly the forwards ahead divided by m.
Schedule make_pipemare(const ScheduleRequest& request) {
  Schedule schedule = make_latest(request);
  for (std::int32_t stage = 0; stage < request.devices; ++stage) {
    const std::int32_t ahead = request.devices - 1 - stage;
    const std::int32_t microbatches = request.published_delays ? 2 * ahead + 1 : ahead;
    Correction correction{.delay = static_cast<double>(microbatches) / request.microbatches};
    if (correction.corrects())
      correction.kept = std::pow(request.correction_decay, 1.0 / correction.delay);
    schedule.corrections.push_back(correction);
  }
  return schedule;
}

}  // namespace tandem
