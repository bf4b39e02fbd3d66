#include "traces/curves.h"

#include <algorithm>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tests/support/pipelines.h"
#include "tests/traces/tiny_runs.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using enum OpKind;

Op op(OpKind kind, std::int32_t microbatch, std::uint16_t span = 1, std::uint16_t staleness = 0) {
  return {.kind = kind, .microbatch = microbatch, .span = span, .staleness = staleness};
}

Program on_one_device(std::int32_t microbatches, const std::vector<Op>& ops) {
  return tiny_program("one", microbatches, linear_placement(1), {ops});
}

std::int64_t peak(const Curve& curve) {
  return std::max_element(curve.begin(), curve.end(),
                          [](const Step& a, const Step& b) { return a.value < b.value; })
      ->value;
}

TEST(Curves, HoldAMicrobatchFromForwardToItsLastGradient) {
  const Program program = on_one_device(
      2, {op(forward, 0), op(forward, 1), op(backward_input, 0), op(backward_input, 1),
          op(backward_weight, 0), op(backward_weight, 1), op(update, 1, 2)});
  const Timeline timeline = tiny_timeline(program, 1, kUnitCosts);
  const Curves curves = curves_of(program, timeline, {});
  EXPECT_THAT(curves.in_flight[DeviceId{0}],
              ElementsAre(Step{0ms, 1}, Step{1ms, 2}, Step{7ms, 1}, Step{8ms, 0}));
  EXPECT_THAT(curves.activation_bytes[DeviceId{0}], ElementsAre(Step{0ms, 0}));
}

TEST(Curves, HoldAStashFromRecomputationOnly) {
  const Program program =
      on_one_device(2, {op(forward, 0), op(forward, 1), op(recompute, 0), op(backward, 0),
                        op(recompute, 1), op(backward, 1), op(update, 1, 2)});
  const Curves curves = curves_of(program, tiny_timeline(program, 1, kUnitCosts),
                                  Table<ReplicaId, StashBytes>{{.stash = 100}});
  EXPECT_THAT(curves.activation_bytes[DeviceId{0}],
              ElementsAre(Step{0ms, 0}, Step{2ms, 100}, Step{8ms, 0}));
  EXPECT_EQ(peak(curves.in_flight[DeviceId{0}]), 2);
}

TEST(Curves, CoverEveryMicrobatchOfASpan) {
  const Program program =
      on_one_device(2, {op(forward, 0), op(forward, 1), op(backward_input, 0),
                        op(backward_input, 1), op(backward_weight, 1, 2), op(update, 1, 2)});
  const Curves curves = curves_of(program, tiny_timeline(program, 1, kUnitCosts), {});
  EXPECT_THAT(curves.in_flight[DeviceId{0}], ElementsAre(Step{0ms, 1}, Step{1ms, 2}, Step{7ms, 0}));
}

TEST(Curves, ShowOneVersionWithFlushAndTwoWith2BW) {
  const Program flushed = tiny_1f1b(3, 4), buffered = tiny_2bw(3, 4);
  const Curves one = curves_of(flushed, tiny_timeline(flushed, 5, kUnitCosts), {});
  const Curves two = curves_of(buffered, tiny_timeline(buffered, 5, kUnitCosts), {});
  for (const ReplicaId replica : all_ids<ReplicaId>(3)) {
    EXPECT_THAT(one.versions[replica], ElementsAre(Step{0ms, 1})) << index(replica);
    EXPECT_EQ(peak(two.versions[replica]), 2) << index(replica);
    EXPECT_EQ(two.versions[replica].back().value, 1) << index(replica);
  }
}

TEST(Curves, KeepWhatNoBackwardReleases) {
  const Program program = on_one_device(1, {op(forward, 0)});
  const Curves curves = curves_of(program, tiny_timeline(program, 3, kUnitCosts), {});
  EXPECT_EQ(curves.in_flight[DeviceId{0}].back().value, 3);
}

/// A run long enough that every ring of slots has been filled.
Timeline long_run(const Program& program) { return tiny_timeline(program, 4, kUnitCosts); }

Program lowered(std::string_view schedule) {
  return lower(make_schedule(find_schedule(schedule), {.devices = 4, .microbatches = 8}));
}

TEST(Curves, OfWhatIsHeldReachThePeakOfTheOrder) {
  for (const std::string_view schedule : {"gpipe", "1f1b", "1f1b-eager", "interleaved", "2bw",
                                          "zb-h1", "zb-h2", "zbv", "v-half", "chimera"}) {
    const Program program = lowered(schedule);
    const Table<ReplicaId, HeldActivation> held(program.placement().replicas(), {1000.0, 300.0});
    const Table<DeviceId, double> peaks = peak_held(program, held);
    const Table<DeviceId, Curve> curves = held_over_time(program, long_run(program), held);
    for (const DeviceId device : ids(curves)) {
      EXPECT_EQ(static_cast<double>(peak_of(curves[device])), peaks[device])
          << schedule << " " << index(device);
    }
  }
}

// With the weight-gradient's part kept no longer, less is held: the curve follows the bytes.
TEST(Curves, OfWhatIsHeldFollowTheWeightGradientsPart) {
  const Program program = lowered("zb-h1");
  const auto peak_at = [&](double rest) {
    const Table<ReplicaId, HeldActivation> held(program.placement().replicas(), {1000.0, rest});
    return peak_of(held_over_time(program, long_run(program), held)[DeviceId{3}]);
  };
  EXPECT_LT(peak_at(0.0), peak_at(1000.0));
}

TEST(Curves, OfStashesReachTheirSlots) {
  for (const std::string_view schedule : {"gpipe", "1f1b", "1f1b-eager", "interleaved", "2bw"}) {
    const Program program = lowered(schedule);
    const Table<ReplicaId, StashBytes> stash(program.placement().replicas(), {.stash = 100});
    const Curves curves = curves_of(program, long_run(program), stash);
    const SlotCounts slots = count_slots(program);
    const Table<DeviceId, Pieces> pools =
        stash_pools(program, slots, Table<ReplicaId, StashPieces>(stash.size(), {{{100, 1}}, {}}));
    for (const DeviceId device : ids(pools)) {
      EXPECT_EQ(peak_of(curves.activation_bytes[device]), 100 * pools[device].at(100))
          << schedule << " " << index(device);
    }
  }
}

// Of slices whose stashes are made again keys and values stay meanwhile.
TEST(Curves, OfSlicesMadeAgainReachTheirSlots) {
  for (const char* schedule : {"terapipe", "seq1f1b", "seq1f1b-zb"}) {
    Pipeline wanted = pipeline(schedule, 3, 4);
    wanted.request.slices.count = 3;
    wanted.request.recompute = Recompute::stage;
    const Program program = program_of(wanted);
    const SlotCounts slots = count_slots(program);
    const auto peaks = [&](StashBytes bytes) {
      const Table<ReplicaId, StashBytes> all(program.placement().replicas(), bytes);
      return curves_of(program, long_run(program), all).activation_bytes;
    };
    const Table<DeviceId, Curve> contexts = peaks({.context = 10}), all = peaks({100, 10});
    for (const ReplicaId replica : ids(slots)) {
      const DeviceId device = program.placement().device[replica];
      EXPECT_EQ(peak_of(contexts[device]), 10 * slots[replica][SlotKind::context]) << schedule;
      EXPECT_GT(slots[replica][SlotKind::context], 2) << schedule;
      EXPECT_EQ(peak_of(all[device]) - peak_of(contexts[device]),
                100 * slots[replica][SlotKind::stash])
          << schedule;
    }
  }
}

TEST(Curves, OfAnEmptyTimelineAreFlat) {
  const Program program = tiny_1f1b(2, 2);
  const Curves curves = curves_of(program, Timeline{}, {});
  EXPECT_THAT(curves.in_flight[DeviceId{1}], ElementsAre(Step{0ms, 0}));
  EXPECT_THAT(curves.versions[ReplicaId{1}], ElementsAre(Step{0ms, 1}));
}

}  // namespace
}  // namespace tandem::testing
