// Periods of endless runs against the maximum cycle ratio, and long runs without simulating them
// whole against the same runs simulated whole.

#include "simulator/compiled/steady_state.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "core/program/graph.h"
#include "simulator/simulate.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

double steady_period(const SteadyState& steady) {
  return static_cast<double>(steady.cycle.count()) / static_cast<double>(steady.cycle_batches);
}

TEST(SteadyState, RepeatsEverySeveralBatchesWhenMicrobatchesDoNotDivide) {
  // F 1 ms, B 2 ms, delay 0.1 ms.
  const PlainCosts costs{.forward = 1'000'000, .backward = 2'000'000, .transfer = 100'000};
  const Program four = program_of(pipeline("2bw", 4, 6));
  const auto two = find_steady_state(four, CompiledProgram(four), plain_costs(four, costs));
  ASSERT_TRUE(two);
  EXPECT_EQ(two->cycle_batches, 2);
  EXPECT_EQ(two->cycle.count(), 2 * 18'900'000);
  const Program five = program_of(pipeline("2bw", 5, 7));
  const auto each_five = find_steady_state(five, CompiledProgram(five), plain_costs(five, costs));
  ASSERT_TRUE(each_five);
  EXPECT_EQ(each_five->cycle_batches, 5);
  EXPECT_EQ(each_five->cycle.count(), 5 * 22'120'000);
}

TEST(SteadyState, IsReachedAtOnceByFlushedSchedules) {
  for (const char* flushed : {"model-parallel", "gpipe", "1f1b", "1f1b-v"}) {
    const Program program = program_of(pipeline(flushed, 3, 5));
    const auto steady = find_steady_state(program, CompiledProgram(program),
                                          random_costs(program, 1, Spread::wide));
    ASSERT_TRUE(steady);
    EXPECT_EQ(steady->cycle_batches, 1) << flushed;
    EXPECT_EQ(steady->from_batch, 1) << flushed;
  }
}

TEST(SteadyState, EqualsTheMaximumCycleRatioOn2BW) {
  std::mt19937_64 random(5);
  int several = 0;
  for (int i = 0; i < 200; ++i) {
    const int p = 1 + static_cast<int>(random() % 6);
    const auto m = static_cast<std::int32_t>(p + static_cast<int>(random() % 8));
    Pipeline wanted = pipeline("2bw", p, m, i % 3 == 0 ? m - p : 0);
    wanted.request.tied_embeddings = i % 5 == 0;
    wanted.request.width = i % 7 == 0 ? 2 : 1;
    const auto lanes = i % 2 == 0 ? TransferLanes::shared : TransferLanes::ideal;
    const Program program = program_of(wanted, lanes);
    const CostTable costs =
        random_costs(program, random(), i % 4 == 0 ? Spread::wide : Spread::near_equal);
    const auto steady = find_steady_state(program, CompiledProgram(program), costs);
    ASSERT_TRUE(steady) << wanted.name();
    const double ratio = maximum_cycle_ratio(program, costs);
    EXPECT_NEAR(steady_period(*steady), ratio, 1e-9 * ratio) << wanted.name() << " " << i;
    if (steady->cycle_batches > 1) ++several;
  }
  EXPECT_GE(several, 20) << "cycles of several batches are the hard case, and should be common";
}

class EverySchedulesPeriod : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesPeriod, EqualsTheMaximumCycleRatio) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4}, {2, 4, 6})) {
    const Program program = program_of(wanted);
    for (const Spread spread : {Spread::wide, Spread::tiny}) {
      const CostTable costs = random_costs(program, 3, spread);
      const auto steady = find_steady_state(program, CompiledProgram(program), costs);
      ASSERT_TRUE(steady) << wanted.name();
      EXPECT_NEAR(steady_period(*steady), maximum_cycle_ratio(program, costs), 1e-6)
          << wanted.name();
    }
  }
}

void expect_long_run_as_whole(const Program& program, const CostTable& costs,
                              std::int64_t batches) {
  const SimulationResult result = simulate(program, costs, {.batches = batches});
  SimulatedMachine machine(program, costs);
  run(program, program.order(), batches, machine);
  Duration makespan{}, span{}, ideal{};
  for (const DeviceId device : ids(machine.tallies())) {
    const DeviceTally& tally = machine.tallies()[device];
    makespan = std::max(makespan, tally.last_end);
    span = std::max(span, tally.last_end - tally.first_start);
    ideal = std::max(ideal, tally.useful);
    EXPECT_EQ(result.devices[device].busy, tally.busy);
    EXPECT_EQ(result.devices[device].exposed_communication, tally.exposed_communication);
  }
  EXPECT_EQ(result.makespan, makespan);
  EXPECT_EQ(result.span, span);
  EXPECT_EQ(result.ideal, ideal);
}

TEST_P(EverySchedulesPeriod, EndsALongRunToTheNanosecondWithoutRunningItWhole) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {2, 4, 6})) {
    SCOPED_TRACE(wanted.name());
    const auto lanes = seed % 2 == 0 ? TransferLanes::shared : TransferLanes::ideal;
    const Program program = program_of(wanted, lanes);
    const auto spread = static_cast<Spread>(seed % 3);
    const CostTable costs = random_costs(program, seed, spread);
    expect_long_run_as_whole(program, costs, static_cast<std::int64_t>(1 + seed * 7 % 60));
    if (::testing::Test::HasFailure()) return;
    ++seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesPeriod, ::testing::ValuesIn(schedule_names()),
                         test_name);

TEST(LongRun, EndsToTheNanosecondForRandom2BWOfEveryLength) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 40; ++i) {
    const int p = 2 + static_cast<int>(random() % 4);
    const auto m = static_cast<std::int32_t>(p + static_cast<int>(random() % 6));
    Pipeline wanted = pipeline("2bw", p, m, i % 2 == 0 ? m - p : 0);
    wanted.request.width = i % 3 == 0 ? 2 : 1;
    const Program program = program_of(wanted);
    const CostTable costs = random_costs(program, random(), Spread::near_equal);
    SCOPED_TRACE(wanted.name());
    for (std::int64_t batches = 1; batches < 40; batches += 1 + i % 5) {
      expect_long_run_as_whole(program, costs, batches);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(LongRun, RecordsTheSameTimesThatItSkips) {
  const Program program = program_of(pipeline("2bw", 4, 6));
  const CostTable costs = random_costs(program, 9, Spread::near_equal);
  const SimulationResult skipped = simulate(program, costs, {.batches = 50});
  const SimulationResult recorded = simulate(program, costs, {.batches = 50, .record = true});
  EXPECT_EQ(recorded.makespan, skipped.makespan);
  EXPECT_EQ(recorded.timeline->spans.size(), 50 * program.size());
  EXPECT_FALSE(skipped.timeline);
}

TEST(LongRun, OfAMillionBatchesIssuesNoMoreThanAShortOne) {
  // Time tells: run whole, a million batches of 64 devices would issue sixteen billion instances.
  const Program program = program_of(pipeline("2bw", 64, 64));
  const CostTable costs = plain_costs(program, {.forward = 10, .backward = 20, .transfer = 1});
  const auto start = std::chrono::steady_clock::now();
  const SimulationResult result = simulate(program, costs, {.batches = 1'000'000});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  const SimulationResult ten = simulate(program, costs, {.batches = 10});
  EXPECT_EQ(result.makespan - ten.makespan,
            result.cycle * ((1'000'000 - 10) / result.cycle_batches));
}

TEST(SlowDrift, EndsInACycleAfterHalfAMillionBatches) {
  // The last stage is a nanosecond a microbatch faster than the first, with a transfer's worth of
  // slack between them: the states drift for 550,000 batches before they repeat.
  const Program program = program_of(pipeline("2bw", 2, 4, 1));
  const CostTable costs = price(program, [](const CostKey& key) -> Duration {
    if (is_transfer(key.kind)) return Duration(400'000);
    if (key.kind == OpKind::update) return Duration(0);
    const bool fast = key.kind == OpKind::forward && key.replica == ReplicaId{1};
    return Duration(key.kind == OpKind::forward ? (fast ? 999'999 : 1'000'000) : 2'000'000);
  });
  EXPECT_FALSE(find_steady_state(program, CompiledProgram(program), costs, 1'000'000));
  const SimulationResult result = simulate(program, costs, {.batches = 3});
  EXPECT_TRUE(result.exact_cycle);
  EXPECT_GT(result.steady_from_batch, 500'000);
  EXPECT_EQ(result.cycle_batches, 1);
  EXPECT_EQ(result.cycle.count(), 12'000'000);
}

TEST(CycleFinder, NeverAcceptsWhatDoesNotRepeat) {
  // Two devices, slow drift again: within a thousand batches no state recurs.
  const Program program = program_of(pipeline("2bw", 2, 4, 1));
  CostTable costs = price(program, [](const CostKey& key) -> Duration {
    if (is_transfer(key.kind)) return Duration(400'000);
    return Duration(key.kind == OpKind::forward && key.replica == ReplicaId{1} ? 2'999'997
                                                                               : 3'000'000);
  });
  SimulatedMachine machine(program, costs);
  CycleFinder finder;
  for (std::int64_t body = -program.ramp(); body < 1000; ++body) {
    run_body(program, program.order(), body, 1'000'000, machine);
    if (body < 0) continue;
    std::vector<std::int64_t> state;
    machine.append_state(body, state);
    ASSERT_FALSE(finder.after(body, state, machine.tallies())) << body;
  }
}

}  // namespace
}  // namespace tandem::testing
