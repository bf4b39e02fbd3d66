#include "traces/report/chart.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/program/versions.h"
#include "core/schedule/schedule.h"
#include "tests/traces/tiny_runs.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr TinyCosts kChartCosts{
    .forward = 1ms, .backward = 2ms, .backward_weight = 1ms, .transfer = 200us, .update = 500us};

Program program_of(std::string_view schedule, TransferLanes lanes = TransferLanes::shared) {
  return lower(make_schedule(find_schedule(schedule), {.devices = 4, .microbatches = 8}), lanes);
}

struct Sum {
  Duration busy{}, idle{};
};

/// Of each device's compute lane.
std::map<DeviceId, Sum> sums_of(const Chart& chart) {
  std::map<DeviceId, Sum> sums;
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    if (chart.rows[row].title != "compute") continue;
    for (std::size_t box = chart.rows[row].first_box; box < chart.row_end(row); ++box)
      sums[chart.rows[row].device].busy += chart.boxes[box].end - chart.boxes[box].start;
  }
  for (const ChartIdle& idle : chart.idle) sums[idle.device].idle += idle.end - idle.start;
  return sums;
}

TEST(Chart, HasABoxForEachLaneOfEachInstance) {
  for (const std::string_view schedule : {"gpipe", "1f1b", "2bw", "zb-h1", "zbv", "bpipe"}) {
    const Program program = program_of(schedule);
    const Timeline timeline = tiny_timeline(program, 2, kChartCosts);
    using Box = std::tuple<OpKind, ReplicaId, std::int64_t, Duration, Duration>;
    std::multiset<Box> expected, boxes;
    for (const Span& span : timeline.spans) {
      const Instruction& instruction = program[span.instruction];
      const std::int64_t microbatch =
          span.body * program.microbatches() + instruction.op.microbatch;
      for (std::size_t lane = 0; lane < program.lanes(instruction).size(); ++lane)
        expected.insert(
            {instruction.op.kind, instruction.op.replica, microbatch, span.start, span.end});
    }
    for (const ChartBox& box : chart_of(program, timeline).boxes)
      boxes.insert({box.kind, box.replica, box.microbatch, box.start, box.end});
    EXPECT_EQ(boxes, expected) << schedule;
  }
}

TEST(Chart, BoxesOfARowAscendAndDoNotOverlap) {
  const Program program = program_of("1f1b");
  const Chart chart = chart_of(program, tiny_timeline(program, 2, kChartCosts));
  EXPECT_EQ(chart.rows.front().title, "compute");
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    for (std::size_t box = chart.rows[row].first_box + 1; box < chart.row_end(row); ++box)
      EXPECT_GE(chart.boxes[box].start, chart.boxes[box - 1].end) << row;
  }
}

TEST(Chart, BusyAndIdleMakeUpTheRun) {
  for (const std::string_view schedule : {"gpipe", "1f1b", "2bw", "zb-h1", "zbv"}) {
    const Program program = program_of(schedule);
    Timeline timeline = tiny_timeline(program, 2, kChartCosts);
    const Chart chart = chart_of(program, timeline);
    for (const auto& [device, sum] : sums_of(chart))
      EXPECT_EQ(sum.busy + sum.idle, chart.end - chart.start) << schedule << index(device);
    // What is taken away is idle then.
    const auto middle = timeline.spans.begin() + std::ssize(timeline.spans) / 2;
    const auto removed = std::find_if(middle, timeline.spans.end(), [&](const Span& span) {
      return is_compute(program[span.instruction].op.kind);
    });
    const DeviceId device = program.placement().device[program[removed->instruction].op.replica];
    const Duration length = removed->end - removed->start;
    timeline.spans.erase(removed);
    const Duration idle = sums_of(chart_of(program, timeline))[device].idle;
    EXPECT_EQ(idle, sums_of(chart)[device].idle + length) << schedule;
  }
}

TEST(Chart, IdleTimeNamesWhatTheNextOpWaitedForLast) {
  const Program program = tiny_1f1b(2, 2);
  const Chart chart = chart_of(program, tiny_timeline(program, 1, kChartCosts));
  std::vector<std::pair<std::size_t, std::string>> causes;
  for (const ChartIdle& idle : chart.idle) {
    std::string cause = "none";
    if (idle.cause) {
      const ChartBox& box = chart.boxes[*idle.cause];
      cause = std::string(name(box.kind)) + " " + std::to_string(box.microbatch);
      EXPECT_EQ(box.end, idle.end);
    }
    causes.emplace_back(index(idle.device), cause);
  }
  using Cause = std::pair<std::size_t, std::string>;
  EXPECT_THAT(causes, ElementsAre(Cause{0, "send_gradient 0"}, Cause{0, "send_gradient 1"},
                                  Cause{1, "send_activation 0"}, Cause{1, "none"}));
}

TEST(Chart, TellsTheVersionThatEachOpReads) {
  const Program program = program_of("2bw");
  const Timeline timeline = tiny_timeline(program, 3, kChartCosts);
  const Chart chart = chart_of(program, timeline);
  EXPECT_TRUE(chart.several_versions);
  EXPECT_FALSE(chart_of(program_of("1f1b"), {}).several_versions);
  int stale = 0;
  for (const ChartBox& box : chart.boxes) {
    const bool reads = reads_weights(box.kind);
    EXPECT_EQ(box.version.has_value(), reads || box.kind == OpKind::update) << name(box.kind);
    if (!reads) continue;
    EXPECT_EQ(*box.version, std::max<std::int64_t>(box.microbatch / 8 - 1, 0));
    stale += *box.version < box.microbatch / 8 ? 1 : 0;
  }
  EXPECT_EQ(stale, 4 * 2 * 8 * 2);  // forwards and backwards of all stages, after the first batch
}

TEST(Chart, TransfersThatHoldNoLaneHaveARowOfTheSender) {
  const Program program = program_of("gpipe", TransferLanes::ideal);
  const Chart chart = chart_of(program, tiny_timeline(program, 1, kChartCosts));
  std::map<std::size_t, std::size_t> transit;
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    if (chart.rows[row].title != "in transit") continue;
    transit[index(chart.rows[row].device)] = chart.row_end(row) - chart.rows[row].first_box;
  }
  const std::map<std::size_t, std::size_t> expected{{0, 8}, {1, 16}, {2, 16}, {3, 8}};
  EXPECT_EQ(transit, expected);
}

TEST(Chart, OfAnEmptyTimelineHasRowsOnly) {
  const Chart chart = chart_of(tiny_1f1b(2, 2), {});
  EXPECT_EQ(chart.rows.size(), 2U);
  EXPECT_THAT(chart.boxes, IsEmpty());
  EXPECT_THAT(chart.idle, IsEmpty());
}

/// On all of its lanes.
TEST(Chart, MarksWhatIsSaidToBeCritical) {
  const Program program = program_of("1f1b");
  const Timeline timeline = tiny_timeline(program, 1, kChartCosts);
  std::vector<bool> critical(timeline.spans.size(), false);
  std::size_t sent = 0;  // a transfer, which has a box on both devices
  while (program[timeline.spans[sent].instruction].op.kind != OpKind::send_activation) ++sent;
  critical[sent] = true;
  const Chart chart = chart_of(program, timeline, {}, critical);
  EXPECT_TRUE(chart.knows_critical);
  std::size_t marked = 0;
  for (const ChartBox& box : chart.boxes) {
    if (!box.critical) continue;
    ++marked;
    EXPECT_EQ(box.kind, OpKind::send_activation);
    EXPECT_EQ(box.start, timeline.spans[sent].start);
  }
  EXPECT_EQ(marked, 2u);
  const Chart unknown = chart_of(program, timeline);
  EXPECT_FALSE(unknown.knows_critical);
  for (const ChartBox& box : unknown.boxes) EXPECT_FALSE(box.critical);
}

}  // namespace
}  // namespace tandem::testing
