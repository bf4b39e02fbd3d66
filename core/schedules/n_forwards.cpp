// TiMePReSt (arXiv 2410.14312; FGCS 178, 2026), nF1B: N forwards, then one backward of N
// microbatches, the mini-batch that an update covers, for ever. All of a mini-batch goes down
// before any of it comes back, so stage s is 2(p − 1 − s) forwards ahead of its backwards. A
// forward reads on every stage the version that was the newest on stage 0 as its microbatch
// entered (vertical sync), a backward the newest. By a third party's notes; the form of the
// staleness is ours, and has the order of all published grids.
//
// I-TiMePReSt (2509.23241) lets a backward read a mix of its forward's weights and the newest, the
// old ones' share falling exponentially with their age. Its formula is not public; ours is below.

#include <cmath>

#include <fmt/format.h>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

/// With fewer, updates that the paper counts apart, chains that never meet, would be one here.
std::optional<std::string> reject_timeprest(std::string_view name, const ScheduleRequest& request) {
  const std::int32_t least = std::max(2, request.devices - 1);
  if (request.microbatches >= least) return std::nullopt;
  return fmt::format(
      "{} needs m >= max(2, p-1) = {} microbatches, found {}: with fewer the paper trains several "
      "sequences of updates that never meet, and a stage's one set of weights has one",
      name, least, request.microbatches);
}

/// Updates between the version that a forward reads and the one that its backward finds, of the
/// microbatch with this number in its update, on every stage.
static std::int32_t age_of(std::int32_t of_update, const ScheduleRequest& request) {
  const std::int32_t m = request.microbatches;
  const std::int32_t before = std::max(0, 2 * (request.devices - 1) - of_update);
  return (before + m - 1) / m;
}

Schedule make_timeprest(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  schedule.version_rule = VersionRule::vertical;
  const std::int32_t m = request.microbatches;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const std::int32_t ahead =
        2 * (request.devices - 1 - static_cast<std::int32_t>(index(replica)));
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t k = ahead; k < ahead + m; ++k)
      order.push_back(forward(replica, k, static_cast<std::uint16_t>(age_of(k % m, request))));
    for (std::int32_t k = 0; k < m; ++k) {
      order.push_back(backward(replica, k));
      if (!request.single_backwards) order.back().group = 1;
    }
    order.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

// Our definition: a backward of weights that are a updates newer than its forward's gives the old
// ones the share e^-a: e^-a W_F + (1 - e^-a) W, which is W - e^-a a D where each update changes
// weights by as much as the last one, D. One backward is of all microbatches of an update, so it
// reads one mix: W - s D, s the mean of e^-a a over them. With ages of at most 1, m >= 2(p-1), that
// is the mean of their mixes exactly.
Schedule make_timeprest_i(const ScheduleRequest& request) {
  Schedule schedule = make_timeprest(request);
  double shares = 0.0;
  for (std::int32_t k = 0; k < request.microbatches; ++k) {
    const double age = age_of(k, request);
    shares += age * std::exp(-age);
  }
  const Reading reading{.delay = shares / request.microbatches};
  schedule.readings = Table<StageId, Reading>(request.devices, reading);
  return schedule;
}

}  // namespace tandem
