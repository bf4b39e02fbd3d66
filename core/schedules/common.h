#pragma once
// What several generators need to say.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/schedule/schedule.h"

namespace tandem {

/// An activation, counted in integers so that a sum that reaches a cap equals it.
inline constexpr std::int64_t kActivation = 1 << 20;

/// Which of a batch's slices is the i-th to go back: microbatch by microbatch, the last slice
/// first, since it alone has no later ones whose queries read its keys.
inline std::int32_t backward_turn(std::int32_t i, std::int32_t slices) {
  const std::int32_t slice = i % slices;
  return i - slice + slices - 1 - slice;
}

/// A schedule with no ops yet: m, slices, width and the tied first and last stage set from the
/// request.
inline Schedule empty_schedule(const ScheduleRequest& request, Placement placement) {
  Schedule schedule;
  schedule.microbatches = static_cast<std::int32_t>(request.units());
  schedule.slices = request.slices.count;
  schedule.width = request.width;
  schedule.placement = std::move(placement);
  if (request.tied_embeddings && schedule.placement.stages() > 1)
    schedule.placement.tied = {{StageId{0}, id_at<StageId>(schedule.placement.stages() - 1)}};
  schedule.order.resize(schedule.placement.devices);
  return schedule;
}

inline Op forward(ReplicaId replica, std::int32_t microbatch, std::uint16_t staleness = 0) {
  return {.kind = OpKind::forward,
          .replica = replica,
          .microbatch = microbatch,
          .staleness = staleness};
}

inline Op backward(ReplicaId replica, std::int32_t microbatch, std::uint16_t staleness = 0) {
  return {.kind = OpKind::backward,
          .replica = replica,
          .microbatch = microbatch,
          .staleness = staleness};
}

/// The two halves of a backward (zero bubble's B and W): the gradient of the stage's input, which
/// the stage before waits for, and that of its weights, which only the update does.
inline Op backward_input(ReplicaId replica, std::int32_t microbatch) {
  return {.kind = OpKind::backward_input, .replica = replica, .microbatch = microbatch};
}

inline Op backward_weight(ReplicaId replica, std::int32_t microbatch) {
  return {.kind = OpKind::backward_weight, .replica = replica, .microbatch = microbatch};
}

/// One update for the `span` microbatches that end with `last`.
inline Op update(ReplicaId replica, std::int32_t last, std::int32_t span) {
  return {.kind = OpKind::update,
          .replica = replica,
          .microbatch = last,
          .span = static_cast<std::uint16_t>(span)};
}

/// Why devices or microbatches can't be shared out among directions; empty: they can.
inline std::optional<std::string> uneven_share(std::string_view name, std::int32_t directions,
                                               const ScheduleRequest& request) {
  const std::pair<std::string_view, std::int32_t> counts[] = {
      {"devices", request.devices}, {"microbatches", request.microbatches}};
  for (const auto& [what, found] : counts) {
    if (found % directions == 0) continue;
    const std::int32_t below = found / directions * directions;
    return fmt::format("{} of {} directions needs {} divisible by {}, found {}: take {}{}", name,
                       directions, what, directions, found,
                       below > 0 ? fmt::format("{} or ", below) : "", below + directions);
  }
  return std::nullopt;
}

/// At the end of each device's order, an update of each of its stages for the whole batch.
inline void append_updates(Schedule& schedule) {
  const std::int32_t m = schedule.microbatches;
  for (const ReplicaId replica : ids(schedule.placement.device))
    schedule.order[schedule.placement.device[replica]].push_back(update(replica, m - 1, m));
}

/// The longest time of a device between its first op's start and its last one's end: the zero
/// bubble papers' metric, for schedulers that choose among several. At the costs of the request;
/// transfers occupy no link.
/// REQUIRES: a chain of one replica a stage, in the order of the stages; vanilla semantics; an
/// order that does not deadlock.
Duration span_of(const Schedule& schedule, const ScheduleRequest& request);

/// What the busiest device computes in a batch: no order's span is shorter.
Duration longest_work(const Placement& placement, const ScheduleRequest& request);

/// One stage a device, in a line. `append` adds the ops of a replica to its device's order, which
/// ends with the update for the whole batch.
template <class Append>
Schedule linear_schedule(const ScheduleRequest& request, const Append& append) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  for (const ReplicaId replica : ids(schedule.placement.device))
    append(schedule.order[schedule.placement.device[replica]], replica);
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
