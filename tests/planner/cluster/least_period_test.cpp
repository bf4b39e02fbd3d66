// No run of any schedule has a shorter period, and where nobody waits for a link the bound is near.

#include "planner/cluster/least_period.h"

#include <cstdint>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/options.h"
#include "core/schedule/schedule.h"
#include "simulator/simulate.h"
#include "tests/support/pipelines.h"

namespace tandem {
namespace {

using testing::request_for;

struct PeriodCase {
  Schedule schedule;
  StageCosts costs;
  double bound() const { return to_seconds(least_period(schedule, costs)); }
  double simulated() const {
    const Program program = lower(schedule);
    return simulate(program, price(program, cost_model(schedule.placement, costs)), {}).period_s();
  }
};

/// Of odd times; sums take none in one pipeline.
StageCosts any_costs(const Schedule& schedule, std::mt19937_64& random) {
  const auto some = [&](std::int64_t most) {
    return Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1);
  };
  StageCosts costs;
  costs.transfer = some(300);
  for (std::size_t stage = 0; stage < schedule.placement.stages(); ++stage) {
    StageTimes times{.forward = some(1000),
                     .recompute = some(1000),
                     .backward_input = some(1000),
                     .backward_weight = some(1000),
                     .update = some(500)};
    times.backward = times.backward_input + times.backward_weight;
    if (schedule.width > 1) times.reduce = some(2000);
    if (random() % 2 == 0) times.overlapped = times.forward + times.backward / 2;
    costs.stages.push_back(times);
  }
  return costs;
}

TEST(LeastPeriod, IsBelowTheSimulatedOfEverySchedule) {
  constexpr std::pair<int, std::int32_t> kSizes[] = {{1, 2}, {2, 4}, {4, 8}, {4, 12}};
  constexpr std::uint16_t kWidths[] = {1, 2};
  std::mt19937_64 random(5);
  int checked = 0, known = 0, near = 0, outlined = 0;
  ScheduleOutlines outlines;
  for (const ScheduleTraits& row : schedules()) {
    for (const auto& [devices, microbatches] : kSizes) {
      for (const std::uint16_t width : kWidths) {
        ScheduleRequest request = request_for(devices, microbatches);
        if (row.replicas_per_device == 0) request.chunks = 2;
        request.width = width;
        if (random() % 2 == 0) request.recompute = Recompute::stage;
        if (reason_against(row, request)) continue;
        const Schedule schedule = make_schedule(row, request);
        const PeriodCase one{schedule, any_costs(schedule, random)};
        const double bound = one.bound(), simulated = one.simulated();
        EXPECT_LE(bound, simulated * (1 + 1e-12))
            << row.name << " p" << devices << " m" << microbatches << " width" << width;
        if (const auto outline = outlines.of(row, request)) {
          EXPECT_LE(to_seconds(least_period(*outline, width, one.costs)), simulated * (1 + 1e-12))
              << row.name << " p" << devices << " m" << microbatches << " width" << width;
          ++outlined;
        }
        ++checked;
        known += bound > 0.0 ? 1 : 0;
        near += bound > 0.95 * simulated ? 1 : 0;
      }
    }
  }
  EXPECT_GT(checked, 150);
  EXPECT_EQ(known, checked);
  EXPECT_GT(outlined, 30);
  EXPECT_GT(near, checked / 2) << checked;
}

// GPipe's step by its closed form, (m + p − 1)(f + b) and an update: the bound is the period, and a
// nanosecond more would be wrong.
TEST(LeastPeriod, IsThePeriodOfAFlush) {
  const Schedule schedule = make_schedule(find_schedule("gpipe"), request_for(4, 8));
  const StageTimes times{
      .forward = Duration(100), .backward = Duration(200), .update = Duration(7)};
  const PeriodCase one{schedule, uniform_costs(4, times, Duration(0))};
  EXPECT_EQ(least_period(schedule, one.costs), Duration(11 * 300 + 7));
  EXPECT_DOUBLE_EQ(one.simulated(), one.bound());
}

// Interleaving's, m v (f + b) + (p − 1)(f + b) for v stages of f and b a device, by its outline.
TEST(LeastPeriod, OfAnOutlineIsThePeriodOfAFlush) {
  ScheduleRequest request = request_for(4, 8);
  request.chunks = 3;
  const ScheduleTraits& row = find_schedule("interleaved");
  const StageTimes times{
      .forward = Duration(100), .backward = Duration(200), .update = Duration(7)};
  const PeriodCase one{make_schedule(row, request), uniform_costs(12, times, Duration(0))};
  const auto outline = ScheduleOutlines().of(row, request);
  ASSERT_TRUE(outline.has_value());
  const Duration least = least_period(*outline, 1, one.costs);
  EXPECT_EQ(least, Duration(8 * 3 * 300 + 3 * 300 + 7));
  EXPECT_NEAR(one.simulated(), to_seconds(least), 15e-9);  // updates of other stages
}

// What a bound may not leave out, and not count twice: a sum before the update, transfers there and
// back, each slice's own time.
TEST(LeastPeriod, OfAnOutlineCountsWhatTheFirstStageWaitsFor) {
  ScheduleRequest request = request_for(2, 4);
  const ScheduleTraits& row = find_schedule("zbv");
  StageCosts costs = uniform_costs(4,
                                   {.forward = Duration(100),
                                    .backward_input = Duration(100),
                                    .backward_weight = Duration(100),
                                    .update = Duration(7),
                                    .reduce = Duration(5000)},
                                   Duration(0));
  const auto outline = ScheduleOutlines().of(row, request);
  ASSERT_TRUE(outline.has_value());
  const Duration alone = least_period(*outline, 1, costs);
  EXPECT_EQ(least_period(*outline, 2, costs), Duration(4 * 500 + 7 + 5000));
  EXPECT_EQ(alone, Duration(4 * 600 + 14));
  costs.transfer = Duration(10000);
  // To device 1 and back; of stage 2, to the turn and there: as far.
  EXPECT_EQ(least_period(*outline, 1, costs), Duration(4 * 10000 + 3 * 200 + 4 * 200 + 100 + 7));
}

TEST(LeastPeriod, OfSlicesHoldsWhatEachTakes) {
  ScheduleRequest request = request_for(3, 4);
  request.slices.count = 2;
  const Schedule schedule = make_schedule(find_schedule("seq1f1b"), request);
  StageCosts costs =
      uniform_costs(3, {.forward = Duration(100), .backward = Duration(200)}, Duration(0));
  costs.slices = {costs, costs};
  for (const StageId stage : ids(costs.stages)) {
    costs.slices[1].stages[stage].forward *= 3;
    costs.slices[1].stages[stage].backward *= 3;
  }
  sum_slices(costs);
  const PeriodCase one{schedule, costs};
  EXPECT_LE(one.bound(), one.simulated());
  // Four microbatches of both slices, at least.
  EXPECT_GE(least_period(schedule, costs), Duration(4 * (300 + 900)));
}

}  // namespace
}  // namespace tandem
