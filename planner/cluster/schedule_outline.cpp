#include "planner/cluster/schedule_outline.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/schedule/options.h"

namespace tandem {

namespace {

constexpr std::uint16_t kFewDevices = 4;  // tell all ways to place stages apart
constexpr std::array<std::int32_t, 3> kFewMicrobatches{8, 4, 16};

Placement in_a_v(std::uint16_t devices, std::uint16_t) { return v_placement(devices); }

constexpr std::array kPlacements{&looped_placement, &wave_placement, &in_a_v};

bool alike(const Placement& a, const Placement& b) {
  return a.device == b.device && a.stage == b.stage && a.edges == b.edges && a.partner == b.partner;
}

bool is_of_several_stages(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  return placement.replicas() > placement.devices && placement.stages() == placement.replicas();
}

}  // namespace

std::optional<ScheduleOutlines::Pattern> ScheduleOutlines::pattern_of(
    const ScheduleTraits& row, const ScheduleRequest& request) {
  for (const std::int32_t microbatches : kFewMicrobatches) {
    ScheduleRequest small{.devices = kFewDevices, .microbatches = microbatches};
    small.chunks = request.chunks;
    small.slices.count = request.slices.count;
    if (reason_against(row, small)) continue;
    const Schedule schedule = make_schedule(row, small);
    if (!is_of_several_stages(schedule)) return std::nullopt;
    Pattern pattern;
    for (const auto place : kPlacements) {
      if (alike(place(kFewDevices, request.chunks), schedule.placement)) pattern.place = place;
    }
    if (pattern.place == nullptr) return std::nullopt;
    const BatchWork work(schedule);
    const std::int64_t passes = small.units();
    for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
      const std::int64_t count = work.counts(ReplicaId{})[kind];
      if (count % passes == 0)
        pattern.a_pass[kind] = count / passes;
      else
        pattern.a_batch[kind] = count;
    }
    for (const ReplicaId replica : ids(schedule.placement.stage)) {
      if (!work.alike(replica, ReplicaId{})) return std::nullopt;
    }
    for (const std::vector<Op>& order : schedule.order) {
      for (const Op& op : order) {
        pattern.spans = pattern.spans || op.span > 1;
        pattern.overlaps = pattern.overlaps || op.group != 0;
      }
    }
    return pattern;
  }
  return std::nullopt;
}

std::optional<ScheduleOutline> ScheduleOutlines::of(const ScheduleTraits& row,
                                                    const ScheduleRequest& request) {
  if (request.recompute == Recompute::stage || !request.activation_caps.empty())
    return std::nullopt;
  const auto [place, unknown] = known_.try_emplace({&row, request.chunks, request.slices.count});
  if (unknown) place->second = pattern_of(row, request);
  if (!place->second) return std::nullopt;
  const Pattern& pattern = *place->second;
  Placement placement = pattern.place(request.devices, request.chunks);
  const std::int64_t passes = request.units();
  OpCounts counts = pattern.a_batch;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) counts[kind] += passes * pattern.a_pass[kind];
  Table<ReplicaId, OpCounts> of_stages(placement.replicas(), counts);
  return ScheduleOutline{
      .work = BatchWork(std::move(placement), std::move(of_stages), request.slices.count),
      .passes = static_cast<std::int32_t>(passes),
      .flushes = row.weights == WeightSemantics::vanilla && row.updates_together,
      .spans = pattern.spans,
      .overlaps = pattern.overlaps};
}

}  // namespace tandem
