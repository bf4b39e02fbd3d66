// TiMePReSt (arXiv 2410.14312; FGCS 178, 2026), nF1B: N forwards, then one backward of N
// microbatches, the mini-batch that an update covers, for ever. All of a mini-batch goes down
// before any of it comes back, so stage s is 2(p − 1 − s) forwards ahead of its backwards. A
// forward reads on every stage the version that was the newest on stage 0 as its microbatch
// entered (vertical sync), a backward the newest. By a third party's notes; the form of the
// staleness is ours, and has the order of all published grids.

#include <fmt/format.h>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

/// With fewer, updates that the paper counts apart, chains that never meet, would be one here.
std::optional<std::string> reject_timeprest(const ScheduleRequest& request) {
  const std::int32_t least = std::max(2, request.devices - 1);
  if (request.microbatches >= least) return std::nullopt;
  return fmt::format(
      "timeprest needs m >= max(2, p-1) = {} microbatches, found {}: with fewer the paper trains "
      "several sequences of updates that never meet, and a stage's one set of weights has one",
      least, request.microbatches);
}

Schedule make_timeprest(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  schedule.version_rule = VersionRule::vertical;
  const std::int32_t m = request.microbatches, round_trip = 2 * (request.devices - 1);
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const std::int32_t ahead = round_trip - 2 * static_cast<std::int32_t>(index(replica));
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t k = ahead; k < ahead + m; ++k) {
      const std::int32_t before = std::max(0, round_trip - k % m);  // backwards to come on stage 0
      order.push_back(forward(replica, k, static_cast<std::uint16_t>((before + m - 1) / m)));
    }
    for (std::int32_t k = 0; k < m; ++k) {
      order.push_back(backward(replica, k));
      if (!request.single_backwards) order.back().group = 1;
    }
    order.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

}  // namespace tandem
