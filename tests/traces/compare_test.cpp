#include "traces/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/traces/tiny_runs.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Optional;

TimelineRecord record(OpKind kind, std::int64_t microbatch, Duration start, Duration end,
                      std::int64_t batch = 0) {
  return {.kind = kind, .microbatch = microbatch, .batch = batch, .start = start, .end = end};
}

constexpr TinyCosts kComparedCosts{
    .forward = 1ms, .backward = 2ms, .transfer = 100us, .update = 500us};

TEST(Compare, FindsNoDifferenceBetweenEquals) {
  const Program program = tiny_2bw(4, 8);
  const TimelineRecords records = records_of(program, tiny_timeline(program, 3, kComparedCosts));
  const Comparison result = compare(records, records);
  EXPECT_TRUE(result.same_ops());
  EXPECT_TRUE(result.worst.empty());
  EXPECT_EQ(result.batches, 3);
  EXPECT_EQ(result.matched, 4 * (24 + 24 + 3) + 3 * (24 + 24));
  EXPECT_THAT(result.makespan.error_percent(), Optional(0.0));
  ASSERT_TRUE(result.step.has_value());
  EXPECT_THAT(result.step->error_percent(), Optional(0.0));
  for (const KindComparison& kind : result.kinds) EXPECT_EQ(kind.percentile_95_error, 0ns);
}

TEST(Compare, ReportsKnownErrorsOfEachKind) {
  // Forwards are 10 % too fast in the prediction, one of them by far; backwards exact.
  TimelineRecords simulated, measured;
  for (int i = 0; i < 20; ++i) {
    const Duration start = 10ms * i;
    simulated.push_back(record(OpKind::forward, i, start, start + 900us));
    measured.push_back(record(OpKind::forward, i, start, start + (i == 7 ? 2ms : 1ms)));
    simulated.push_back(record(OpKind::backward, i, start + 3ms, start + 5ms));
    measured.push_back(record(OpKind::backward, i, start + 4ms, start + 6ms));
  }
  const Comparison result = compare(simulated, measured);
  ASSERT_EQ(result.kinds.size(), 2u);
  const KindComparison& forward = result.kinds[0];
  EXPECT_EQ(forward.kind, OpKind::forward);
  EXPECT_EQ(forward.count, 20);
  EXPECT_EQ(forward.mean, (Compared{900us, 1050us}));
  EXPECT_THAT(forward.mean.error_percent(), Optional(DoubleNear(-100.0 * 150 / 1050, 1e-9)));
  EXPECT_EQ(forward.median_error, 100us);
  EXPECT_EQ(forward.percentile_95_error, 100us);
  EXPECT_EQ(result.kinds[1].mean.error_percent(), 0.0);
  ASSERT_EQ(result.worst.size(), 10u);
  EXPECT_EQ(result.worst[0].simulated.microbatch, 7);
  EXPECT_EQ(result.worst[0].duration().difference(), -1100us);
  EXPECT_EQ(result.makespan, (Compared{195ms, 196ms}));
  ASSERT_EQ(result.devices.size(), 1u);
  EXPECT_EQ(result.devices[0].busy, (Compared{58ms, 61ms}));
  EXPECT_EQ(result.devices[0].bubble, (Compared{137ms, 135ms}));
}

TEST(Compare, TakesTheStepTimeFromUpdateToUpdateWithoutTheFirst) {
  // The measured first step lasts 50 ms, the others 11 ms; the simulated ones 10 ms each.
  TimelineRecords simulated, measured;
  for (int batch = 0; batch < 5; ++batch) {
    simulated.push_back(record(OpKind::update, batch, 10ms * batch, 10ms * (batch + 1), batch));
    const Duration end = 50ms + 11ms * batch;
    measured.push_back(record(OpKind::update, batch, batch == 0 ? 0ms : end - 1ms, end, batch));
  }
  const Comparison result = compare(simulated, measured);
  ASSERT_TRUE(result.step.has_value());
  EXPECT_EQ(*result.step, (Compared{10ms, 11ms}));
  EXPECT_EQ(result.steps.size(), 5u);
  EXPECT_EQ(result.steps[0], (Compared{10ms, 50ms}));
  EXPECT_EQ(result.steps[4], (Compared{10ms, 11ms}));
  EXPECT_EQ(*compare(simulated, measured, {.warm_up_batches = 0}).step,
            (Compared{10ms, 94000us / 5}));
  EXPECT_EQ(*compare(simulated, measured, {.warm_up_batches = 4}).step, (Compared{10ms, 11ms}));
  EXPECT_FALSE(compare(simulated, measured, {.warm_up_batches = 5}).step.has_value());
}

TEST(Compare, LeavesTheWarmUpOutOfDevicesAndKinds) {
  // The measured first batch takes twice as long, the others what was predicted.
  TimelineRecords simulated, measured;
  const auto add = [](TimelineRecords& records, int batch, Duration start, Duration forward) {
    records.push_back(record(OpKind::forward, batch, start, start + forward, batch));
    records.push_back(record(OpKind::update, batch, start + 8ms, start + 10ms, batch));
  };
  for (int batch = 0; batch < 3; ++batch) {
    add(simulated, batch, 10ms * batch, 5ms);
    add(measured, batch, 10ms * batch, batch == 0 ? 8ms : 5ms);
  }
  const Comparison warm = compare(simulated, measured);
  EXPECT_EQ(warm.matched, 6);
  EXPECT_EQ(warm.counted, (Compared{20ms, 20ms}));
  EXPECT_EQ(warm.devices[0].busy, (Compared{14ms, 14ms}));
  EXPECT_EQ(warm.devices[0].bubble, (Compared{6ms, 6ms}));
  EXPECT_EQ(warm.kinds[0].count, 2);
  EXPECT_EQ(warm.kinds[0].mean, (Compared{5ms, 5ms}));
  EXPECT_TRUE(warm.worst.empty());
  EXPECT_THAT(print_comparison(warm), HasSubstr("devices and ops, without the first batch"));
  // Where nothing would remain, all counts.
  for (const std::int64_t all : {0, 3}) {
    const Comparison cold = compare(simulated, measured, {.warm_up_batches = all});
    EXPECT_EQ(cold.devices[0].busy, (Compared{21ms, 24ms}));
    EXPECT_EQ(cold.devices[0].bubble, (Compared{9ms, 6ms}));
    EXPECT_EQ(cold.kinds[0].mean, (Compared{5ms, 6ms}));
    EXPECT_EQ(cold.worst.size(), 1u);
  }
}

TEST(Compare, ReportsOpsThatOneSideLacks) {
  const Program program = tiny_1f1b(2, 2);
  const TimelineRecords all = records_of(program, tiny_timeline(program, 2, kComparedCosts));
  TimelineRecords fewer = all;
  std::erase_if(fewer, [](const TimelineRecord& each) {
    return each.kind == OpKind::backward && each.microbatch == 1;
  });
  Comparison result = compare(all, fewer);
  EXPECT_EQ(result.only_simulated.size(), 2u);
  EXPECT_TRUE(result.only_measured.empty());
  EXPECT_FALSE(result.same_ops());
  result = compare(fewer, all);
  EXPECT_EQ(result.only_measured.size(), 2u);
  EXPECT_THAT(print_comparison(result), HasSubstr("only in the measurement: 2 ops"));
}

TEST(Compare, ReportsAnOpThatRanTwice) {
  const TimelineRecords once{record(OpKind::forward, 0, 0ms, 1ms)};
  const TimelineRecords twice{record(OpKind::forward, 0, 0ms, 1ms),
                              record(OpKind::forward, 0, 2ms, 3ms)};
  const Comparison result = compare(once, twice);
  EXPECT_EQ(result.matched, 1);
  ASSERT_EQ(result.only_measured.size(), 1u);
  EXPECT_EQ(result.only_measured[0].start, 2ms);
}

TEST(Compare, CountsATransferOnce) {
  const Program program = tiny_1f1b(2, 3);
  const TimelineRecords records = records_of(program, tiny_timeline(program, 1, kComparedCosts));
  const Comparison result = compare(records, records);
  for (const KindComparison& kind : result.kinds) {
    if (is_transfer(kind.kind)) {
      EXPECT_EQ(kind.count, 3) << name(kind.kind);
    }
  }
}

TEST(Compare, SurvivesNothing) {
  const Comparison result = compare({}, {});
  EXPECT_TRUE(result.same_ops());
  EXPECT_FALSE(result.step.has_value());
  EXPECT_THAT(print_comparison(result), HasSubstr("makespan"));
  EXPECT_EQ((Compared{1ms, 0ms}).error_percent(), std::nullopt);
}

TEST(Compare, IsPrintedAsTables) {
  const Program program = tiny_2bw(2, 4);
  const Timeline simulated = tiny_timeline(program, 3, kComparedCosts);
  const Timeline measured = tiny_timeline(program, 3, [](const Op& op) {
    return kComparedCosts(op) + Duration(3000 * op.microbatch) +
           (op.replica == ReplicaId{1} ? 50us : 0us);
  });
  TimelineRecords lacking = records_of(program, measured);
  lacking.pop_back();
  expect_golden("comparison.txt",
                print_comparison(compare(records_of(program, simulated), lacking, {.worst = 5})));
}

}  // namespace
}  // namespace tandem::testing
