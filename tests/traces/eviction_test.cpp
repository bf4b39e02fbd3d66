// Moves of stashes in traces: on both devices' lanes, counted once, and the curve of what is held.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tests/traces/tiny_runs.h"
#include "tests/traces/trace_files.h"
#include "traces/compare.h"
#include "traces/curves.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

constexpr TinyCosts kEvictionCosts{
    .forward = 1ms, .backward = 2ms, .transfer = 100us, .update = 500us};

Program evicting(TransferLanes lanes = TransferLanes::shared) {
  return lower(make_schedule(find_schedule("bpipe"), {.devices = 4, .microbatches = 8}), lanes);
}

TEST(EvictionTrace, RecordsEachMoveOnTheLanesOfBothDevices) {
  const Program program = evicting();
  const std::string text = trace_text(program, tiny_timeline(program, 1, kEvictionCosts));
  EXPECT_THAT(text, ::testing::HasSubstr(R"("name":"receive stash from 3")"));
  std::set<std::tuple<DeviceId, LaneKind, DeviceId>> evict, load;
  const TimelineFile read = read_timeline({text, "t.json"});
  for (const TimelineRecord& record : read.runs.at(0).records) {
    if (record.kind == OpKind::evict) evict.insert({record.device, record.lane, record.peer});
    if (record.kind == OpKind::load) load.insert({record.device, record.lane, record.peer});
  }
  using enum LaneKind;
  const DeviceId home{0}, partner{3};
  EXPECT_THAT(evict, ::testing::ElementsAre(std::tuple(home, send_stash, partner),
                                            std::tuple(partner, receive_stash, home)));
  EXPECT_THAT(load, ::testing::ElementsAre(std::tuple(home, receive_stash, partner),
                                           std::tuple(partner, send_stash, home)));
}

TEST(EvictionTrace, CountsAMoveOnce) {
  for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
    const Program program = evicting(lanes);
    const TimelineRecords records = records_of(program, tiny_timeline(program, 1, kEvictionCosts));
    int moves = 0;
    for (const KindComparison& kind : compare(records, records).kinds) {
      if (!moves_stash(kind.kind)) continue;
      EXPECT_EQ(kind.count, 4) << name(kind.kind);
      ++moves;
    }
    EXPECT_EQ(moves, 2);
  }
}

// Device 0 keeps two and has a third in turn; device 3 has one of its own and hosts two.
TEST(EvictionTrace, DrawsAStashWhereItIs) {
  const Program program = evicting();
  const Curves curves = curves_of(program, tiny_timeline(program, 1, kEvictionCosts),
                                  Table<ReplicaId, StashBytes>{{1000}, {100}, {10}, {1}});
  const auto peak = [](const Curve& curve) {
    return std::ranges::max_element(curve, {}, &Step::value)->value;
  };
  EXPECT_EQ(peak(curves.activation_bytes[DeviceId{0}]), 3000);
  EXPECT_EQ(peak(curves.activation_bytes[DeviceId{3}]), 2001);
  EXPECT_EQ(peak(curves.activation_bytes[DeviceId{1}]), 300);
  EXPECT_EQ(peak(curves.in_flight[DeviceId{0}]), 4);
  for (const Curve& curve : curves.activation_bytes) EXPECT_EQ(curve.back().value, 0);
}

}  // namespace
}  // namespace tandem::testing
