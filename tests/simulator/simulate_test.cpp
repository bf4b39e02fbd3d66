// simulate() against published figures and closed forms.

#include "simulator/simulate.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/simulator/published.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// Forwards and backwards of a device, microbatches from 1, as "F1 0-1 F2 1-2 … B1 10-12".
std::string line_of(const Program& program, const Timeline& timeline, DeviceId device) {
  std::string text;
  for (const Span& span : timeline.spans) {
    const Op& op = program[span.instruction].op;
    if (!is_compute(op.kind) || program.placement().device[op.replica] != device) continue;
    text +=
        fmt::format("{}{}{} {}-{}", text.empty() ? "" : " ", op.kind == OpKind::forward ? "F" : "B",
                    span.body * program.microbatches() + op.microbatch + 1, span.start.count(),
                    span.end.count());
  }
  return text;
}

std::vector<std::string> lines_of_2bw(const PlainCosts& costs) {
  const Program program = program_of(pipeline("2bw", 4, 4));
  const SimulationResult result =
      simulate(program, plain_costs(program, costs), {.batches = 6, .record = true});
  std::vector<std::string> lines;
  for (int device = 0; device < 4; ++device) {
    lines.push_back(line_of(program, *result.timeline, id_at<DeviceId>(std::size_t(device))));
  }
  return lines;
}

// Figure 2 of the PipeDream-2BW paper, arXiv 2006.09503: d = m = 4, F = 1, B = 2.
const std::vector<std::string> kFigure2 = {
    "F1 0-1 F2 1-2 F3 2-3 F4 3-4 B1 10-12 F5 12-13 B2 13-15 F6 15-16 B3 16-18 F7 18-19 B4 19-21 "
    "F8 21-22 B5 22-24 F9 24-25",
    "F1 1-2 F2 2-3 F3 3-4 B1 8-10 F4 10-11 B2 11-13 F5 13-14 B3 14-16 F6 16-17 B4 17-19 F7 19-20 "
    "B5 20-22 F8 22-23",
    "F1 2-3 F2 3-4 B1 6-8 F3 8-9 B2 9-11 F4 11-12 B3 12-14 F5 14-15 B4 15-17 F6 17-18 B5 18-20 "
    "F7 20-21 B6 21-23",
    "F1 3-4 B1 4-6 F2 6-7 B2 7-9 F3 9-10 B3 10-12 F4 12-13 B4 13-15 F5 15-16 B5 16-18 F6 18-19 "
    "B6 19-21 F7 21-22"};

TEST(Simulate, DrawsFigure2OfThe2BWPaper) {
  const std::vector<std::string> lines = lines_of_2bw({.forward = 1, .backward = 2});
  for (std::size_t device = 0; device < 4; ++device) {
    EXPECT_EQ(lines[device].substr(0, kFigure2[device].size()), kFigure2[device]);
  }
}

TEST(Simulate, DrawsAnotherFigureAtOtherCosts) {
  const std::vector<std::string> lines = lines_of_2bw({.forward = 1, .backward = 2, .transfer = 1});
  for (std::size_t device = 1; device < 4; ++device) {
    EXPECT_NE(lines[device].substr(0, kFigure2[device].size()), kFigure2[device]);
  }
}

TEST(Simulate, KnowsTheMakespansOf24MicrobatchesOnFourDevices) {
  const PlainCosts costs{.forward = 1, .backward = 2};
  EXPECT_EQ(simulated(pipeline("2bw", 4, 4), costs, 6).makespan.count(), 81);
  EXPECT_EQ(simulated(pipeline("2bw", 4, 8), costs, 3).makespan.count(), 81);
  for (const char* flushed : {"1f1b", "gpipe"}) {
    EXPECT_EQ(simulated(pipeline(flushed, 4, 4), costs, 6).makespan.count(), 126);
    EXPECT_EQ(simulated(pipeline(flushed, 4, 8), costs, 3).makespan.count(), 99);
  }
}

TEST(Simulate, AgreesWithTheClosedFormsOfBubbles) {
  for (const auto& [forward, backward] :
       {std::pair{1, 2}, std::pair{2, 1}, std::pair{13, 13}, std::pair{7, 19}}) {
    const PlainCosts costs{.forward = forward, .backward = backward};
    const std::int64_t work = forward + backward;
    for (const int p : {1, 2, 3, 5, 8}) {
      for (const int m : {1, 2, 4, 7, 8, 24}) {
        SCOPED_TRACE(fmt::format("F {} B {} p {} m {}", forward, backward, p, m));
        for (const char* flushed : {"1f1b", "gpipe"}) {
          const SimulationResult result = simulated(pipeline(flushed, p, m), costs, 3);
          EXPECT_EQ(result.ideal.count(), 3 * m * work);
          EXPECT_EQ(result.makespan.count(), 3 * (m + p - 1) * work);
          EXPECT_EQ(result.span, result.makespan);
          EXPECT_EQ(result.cycle.count(), (m + p - 1) * work);
          EXPECT_EQ(result.cycle_batches, 1);
        }
        EXPECT_EQ(simulated(pipeline("model-parallel", p, m), costs, 2).makespan.count(),
                  2 * m * p * work);
        if (m < p) continue;
        const SimulationResult result = simulated(pipeline("2bw", p, m), costs, 3);
        EXPECT_EQ(result.makespan.count(), (3 * m + p - 1) * work);
        EXPECT_EQ(result.cycle.count() / result.cycle_batches, m * work);
      }
    }
  }
}

TEST(Simulate, GPipeDrainsAfterEachGroup) {
  for (const int p : {1, 3, 4}) {
    for (const std::int32_t group : {1, 3, 7, 9}) {
      Pipeline wanted = pipeline("gpipe", p, 7);
      wanted.request.group = group;
      const std::int64_t groups = (7 + group - 1) / group;
      EXPECT_EQ(simulated(wanted, {.forward = 1, .backward = 2}).makespan.count(),
                3 * (7 + groups * (p - 1)))
          << p << " " << group;
    }
  }
}

TEST(Simulate, AgreesWithTheLatencyTermsOfFlushedSchedules) {
  const PlainCosts costs{.forward = 1000, .backward = 2000, .transfer = 7};
  for (const int p : {2, 3, 4, 8}) {
    for (const int rounds : {1, 2, 3, 5}) {
      const int m = p * rounds;
      const std::int64_t work = (m + p - 1) * 3000;
      const SimulationResult one_each =
          simulated(pipeline("1f1b", p, m), costs, 1, TransferLanes::ideal);
      EXPECT_EQ(one_each.makespan.count(), work + 7 * (2 * (p - 1) * rounds + 2 * (p - 2)))
          << p << " " << m;
      const SimulationResult all_first =
          simulated(pipeline("gpipe", p, m), costs, 1, TransferLanes::ideal);
      EXPECT_EQ(all_first.makespan.count(), work + 7 * 2 * (p - 1)) << p << " " << m;
    }
  }
}

TEST(Simulate, LosesARoundTripOverThePipelineAMicrobatchIn2BWWithLatency) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {p, 2 * p, 2 * p + 1}) {
      const SimulationResult result =
          simulated(pipeline("2bw", p, m), {.forward = 1000, .backward = 2000, .transfer = 60});
      // F + B + 2c(p−1)/p a microbatch, exactly: both sides times p and the batches of a cycle.
      EXPECT_EQ(result.cycle.count() * p, m * result.cycle_batches * (3000 * p + 2 * 60 * (p - 1)))
          << p << " " << m;
    }
  }
}

TEST(Simulate, HidesLatencyIn2BWOnlyWithASlopeOfExtraMicrobatches) {
  const auto period_of_microbatch = [](int p, int m, int extra, std::int64_t transfer) {
    const SimulationResult result = simulated(
        pipeline("2bw", p, m, extra), {.forward = 1000, .backward = 2000, .transfer = transfer});
    return static_cast<double>(result.cycle.count()) /
           (1000.0 * m * static_cast<double>(result.cycle_batches));
  };
  EXPECT_DOUBLE_EQ(period_of_microbatch(8, 16, 0, 100), 3.175);
  EXPECT_DOUBLE_EQ(period_of_microbatch(8, 16, 4, 100), 3.1);
  EXPECT_DOUBLE_EQ(period_of_microbatch(8, 16, 7, 100), 3.0);
  EXPECT_DOUBLE_EQ(period_of_microbatch(16, 32, 0, 300), 3.5625);
  EXPECT_DOUBLE_EQ(period_of_microbatch(16, 32, 8, 300), 3.3);
  EXPECT_DOUBLE_EQ(period_of_microbatch(16, 32, 15, 300), 3.0);
}

TEST(Simulate, ReportsWhatEachDeviceDoes) {
  // Two microbatches on two devices; a transfer takes 1, so ideal is 2 (3 + 5):
  //   0 | f0 0-3  f1 3-6           b0 13-18          b1 21-26
  //   1 |           f0 4-7  b0 7-12  f1 12-15  b1 15-20
  const SimulationResult result =
      simulated(pipeline("1f1b", 2, 2), {.forward = 3, .backward = 5, .transfer = 1});
  EXPECT_EQ(result.makespan.count(), 26);
  EXPECT_EQ(result.ideal.count(), 16);
  EXPECT_EQ(result.span.count(), 26);
  const DeviceUse& first = result.devices[DeviceId{0}];
  EXPECT_EQ(first.busy.count(), 16);
  EXPECT_EQ(first.bubble.count(), 10);
  EXPECT_EQ(first.exposed_communication.count(), 2);  // both gradients, 12-13 and 20-21
  EXPECT_EQ(first.peak_activations, 2.0);
  EXPECT_EQ(first.weight_versions, 1);
  const DeviceUse& second = result.devices[DeviceId{1}];
  EXPECT_EQ(second.busy.count(), 16);
  EXPECT_EQ(second.bubble.count(), 10);
  EXPECT_EQ(second.exposed_communication.count(), 1);  // the first activation, 3-4
  EXPECT_EQ(second.peak_activations, 1.0);
}

TEST(Simulate, CountsRecomputationAsBusyButNotAsIdeal) {
  Pipeline wanted = pipeline("gpipe", 2, 4);
  wanted.request.recompute = Recompute::stage;
  const SimulationResult result =
      simulated(wanted, {.forward = 3, .backward = 5, .recompute = 3, .update = 2});
  EXPECT_EQ(result.ideal.count(), 4 * 8);
  EXPECT_EQ(result.devices[DeviceId{0}].busy.count(), 4 * 11 + 2);
}

TEST(Simulate, CountsTheVersionsThatLive) {
  const PlainCosts costs;
  EXPECT_EQ(simulated(pipeline("2bw", 3, 3), costs).devices[DeviceId{1}].weight_versions, 2);
  EXPECT_EQ(simulated(pipeline("gpipe", 3, 3), costs).devices[DeviceId{1}].weight_versions, 1);
}

TEST(Simulate, RunsZeroCostsAndSingleDevices) {
  for (const std::string& name : schedule_names()) {
    for (const Pipeline& wanted : every_pipeline(name, {1, 2, 4}, {1, 2, 4})) {
      const SimulationResult result = simulated(wanted, {.forward = 0, .backward = 0}, 1'000'000);
      EXPECT_EQ(result.makespan.count(), 0) << wanted.name();
      EXPECT_EQ(result.cycle.count(), 0) << wanted.name();
      EXPECT_TRUE(result.exact_cycle) << wanted.name();
    }
  }
}

TEST(Simulate, RefusesRunsThatOutlastTheClock) {
  const auto run = [](std::int64_t cost, std::int64_t batches) {
    return simulated(pipeline("2bw", 4, 6), {.forward = cost, .backward = cost}, batches);
  };
  constexpr std::int64_t kYear = 31'536'000'000'000'000;
  EXPECT_NO_THROW(run(kYear / 100, 10));
  EXPECT_EQ(run(kYear, 10).makespan.count(), (10 * 6 + 3) * 2 * kYear);
  EXPECT_THROW(run(kYear, 12), InputError);
  EXPECT_THROW(run(1'000'000, 1'000'000'000'000), InputError);
  EXPECT_THROW(run(0, std::numeric_limits<std::int64_t>::max()), InputError);
  EXPECT_EQ(run(0, std::numeric_limits<std::int64_t>::max() / 100).makespan.count(), 0);
}

/// 80 years of 64 devices' work are 2,500 of one: what is bounded is the clock.
TEST(Simulate, CountsYearsOfManyDevices) {
  constexpr std::int64_t kOp = 10'000'000'000'000, kBatch = (64 + 63) * 2 * kOp;
  const auto run = [](std::int64_t batches) {
    return simulated(pipeline("1f1b", 64, 64), {.forward = kOp, .backward = kOp}, batches);
  };
  EXPECT_EQ(run(1000).makespan.count(), 1000 * kBatch);
  EXPECT_EQ(run(1000).devices[DeviceId{0}].busy.count(), 1000 * 64 * 2 * kOp);
  EXPECT_THROW(run(2000), InputError);
}

/// Bodies overlap: alone, one takes 31 turns, in the run 16.
TEST(Simulate, CountsYearsOfOverlappingBodies) {
  constexpr std::int64_t kOp = 10'000'000'000'000, kBatch = 16 * 2 * kOp;
  const auto run = [](std::int64_t batches) {
    return simulated(pipeline("2bw", 16, 16), {.forward = kOp, .backward = kOp}, batches);
  };
  EXPECT_EQ(run(14'000).makespan - run(10).makespan, Duration(13'990 * kBatch));
  EXPECT_THROW(run(15'000), InputError);
}

/// It repeats after more batches than the work of all devices, one after another, leaves room for.
TEST(Simulate, FindsThePeriodOfLongBatchesOnManyDevices) {
  const auto run = [](std::int64_t millisecond) {
    return simulated(
        pipeline("2bw", 17, 19),
        {.forward = 10 * millisecond, .backward = 20 * millisecond, .transfer = millisecond});
  };
  const SimulationResult usual = run(1'000'000), longer = run(50'000'000'000'000);
  EXPECT_EQ(usual.cycle_batches, 17);
  EXPECT_TRUE(longer.exact_cycle);
  EXPECT_EQ(longer.cycle_batches, usual.cycle_batches);
  EXPECT_EQ(longer.cycle, 50'000'000 * usual.cycle);
}

}  // namespace
}  // namespace tandem::testing
