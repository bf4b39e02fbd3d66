// PipeDream-2BW (arXiv 2006.09503 §3.1): 1F1B that never drains, gradients of m microbatches make
// one new weight version, and every microbatch uses the version before the newest. The loop makes
// the warm-up and the end.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

/// Forwards that a stage is ahead of its backwards: what fills the pipeline behind it, and its
/// share of the extra.
static std::int32_t forwards_ahead(const ScheduleRequest& request, ReplicaId replica) {
  const auto rest = static_cast<std::int32_t>(request.devices - 1 - index(replica));
  const std::int32_t links = std::max(1, request.devices - 1);
  return rest + (request.extra_in_flight * rest + links - 1) / links;
}

std::optional<std::string> reject_double_buffered(const ScheduleRequest& request) {
  const std::int64_t devices = request.devices;
  const std::int64_t needed = std::max(devices, devices - 1 + request.extra_in_flight);
  if (request.microbatches >= needed) return std::nullopt;
  return fmt::format(
      "2bw needs at least {} microbatches a batch for {} devices and {} extra in flight, found {}: "
      "with fewer, a forward would need weights that do not exist yet (m >= max(p, p - 1 + extra))",
      needed, devices, request.extra_in_flight, request.microbatches);
}

/// The gradients of an update pass through other devices: it would wait for them where it stands.
static bool awaits_others(const ScheduleRequest& request, const Placement& placement,
                          ReplicaId replica) {
  return (request.global_norm && request.devices > 1) || request.width > 1 ||
         !placement.tied_with(placement.stage[replica]).empty();
}

// An update that awaits others stands as late as its first reader allows, right before the first
// forward two batches on: the sums have until then, and the gradients of the batch between need a
// buffer of their own. All offsets are then a batch further on, so that none is negative.
Schedule make_double_buffered(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  const std::int32_t m = request.microbatches;
  const auto late = [&](ReplicaId replica) {
    return awaits_others(request, schedule.placement, replica);
  };
  const std::int32_t shift = late(ReplicaId{}) ? m : 0;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const std::int32_t ahead = forwards_ahead(request, replica);
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t i = 0; i < m; ++i) {
      if (late(replica) && i + ahead == m) order.push_back(update(replica, m - 1, m));
      order.push_back(forward(replica, i + ahead + shift, 1));
      order.push_back(backward(replica, i + shift, 1));
    }
    if (!late(replica)) order.push_back(update(replica, m - 1 + shift, m));
    if (late(replica) && ahead == 0) order.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

}  // namespace tandem
