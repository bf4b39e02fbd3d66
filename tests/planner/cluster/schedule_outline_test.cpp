// An outline says of a schedule what the schedule has, for all sizes.

#include "planner/cluster/schedule_outline.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "core/schedule/options.h"
#include "tests/support/pipelines.h"

namespace tandem {
namespace {

using testing::request_for;

/// Whether a schedule has what the outline says.
bool is_of(const ScheduleOutline& outline, const Schedule& schedule) {
  const Placement& said = outline.placement();
  const Placement& made = schedule.placement;
  if (said.device != made.device || said.stage != made.stage || said.edges != made.edges ||
      said.devices != made.devices)
    return false;
  const BatchWork work(schedule);
  for (const ReplicaId replica : ids(made.stage)) {
    if (work.counts(replica) != outline.work.counts(replica)) return false;
    const StageTimes times{.forward = Duration(3),
                           .backward = Duration(50),
                           .backward_input = Duration(700),
                           .backward_weight = Duration(11000),
                           .update = Duration(130000)};
    if (work.of(replica, times) != outline.work.of(replica, times)) return false;
  }
  return true;
}

ScheduleRequest sized(std::uint16_t devices, std::int32_t microbatches, std::uint16_t chunks,
                      std::int32_t slices) {
  ScheduleRequest request = request_for(devices, microbatches);
  request.chunks = chunks;
  request.slices.count = slices;
  return request;
}

constexpr std::uint16_t kDevices[] = {2, 3, 6};
constexpr std::uint16_t kChunks[] = {1, 2, 3};

TEST(ScheduleOutline, SaysWhatEveryScheduleHas) {
  ScheduleOutlines outlines;
  std::set<std::string_view> known;
  for (const ScheduleTraits& row : schedules()) {
    for (const std::uint16_t devices : kDevices) {
      for (const std::int32_t microbatches : {4, 15, 18}) {
        for (const std::uint16_t chunks : kChunks) {
          for (const std::int32_t slices : {1, 2}) {
            const ScheduleRequest request = sized(devices, microbatches, chunks, slices);
            if (reason_against(row, request)) continue;
            const auto outline = outlines.of(row, request);
            if (!outline) continue;
            known.insert(row.name);
            EXPECT_TRUE(is_of(*outline, make_schedule(row, request)))
                << row.name << " p" << devices << " m" << microbatches << " v" << chunks << " n"
                << slices;
          }
        }
      }
    }
  }
  for (const std::string_view name :
       {"interleaved", "interleaved-zb", "looped-bfs", "hanayo", "zbv", "zbv-auto", "v-zb",
        "v-half", "v-min", "1f1b-v", "seq1f1b-i"})
    EXPECT_TRUE(known.contains(name)) << name;
  for (const std::string_view name : {"1f1b", "2bw", "chimera", "bpipe", "dualpipe", "dualpipev"})
    EXPECT_FALSE(known.contains(name)) << name;
}

TEST(ScheduleOutline, IsNotThatOfAnother) {
  ScheduleOutlines outlines;
  const ScheduleRequest request = sized(4, 8, 2, 1);
  const auto outline = outlines.of(find_schedule("interleaved"), request);
  ASSERT_TRUE(outline.has_value());
  EXPECT_TRUE(is_of(*outline, make_schedule(find_schedule("interleaved"), request)));
  for (const std::string_view other : {"interleaved-zb", "hanayo", "zbv"})
    EXPECT_FALSE(is_of(*outline, make_schedule(find_schedule(other), request))) << other;
}

TEST(ScheduleOutline, IsOfNoneThatMakesStagesAgain) {
  ScheduleRequest request = sized(4, 8, 2, 1);
  request.recompute = Recompute::stage;
  EXPECT_FALSE(ScheduleOutlines().of(find_schedule("interleaved"), request).has_value());
}

}  // namespace
}  // namespace tandem
