// Scenarios against the machine that defines simulated time, paying what each op is said to take.

#include "simulator/analysis/scenarios.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "simulator/compiled/steady_state.h"
#include "simulator/simulate.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// The same program, with a price for each instruction.
Program with_own_prices(const Program& program) {
  ProgramParts parts = program.parts();
  Table<CostId, CostKey> keys;
  for (std::size_t i = 0; i < parts.instructions.size(); ++i) {
    keys.push_back(program.cost_keys()[parts.instructions[i].cost]);
    parts.instructions[i].cost = id_at<CostId>(i);
  }
  parts.cost_keys = std::move(keys);
  return Program(std::move(parts));
}

Duration last_end(const SimulatedMachine& machine) {
  Duration end{};
  for (const DeviceTally& tally : machine.tallies()) end = std::max(end, tally.last_end);
  return end;
}

/// The definition: what instruction `id` takes in the `batch`-th batch of a scenario, counted from
/// 0, warm-up included.
Duration time_of(const Program& program, const CostTable& costs, const Uncertainty& uncertainty,
                 std::int64_t scenario, std::int64_t batch, InstructionId id) {
  const std::uint64_t stream =
      noise::stream(uncertainty.seed, static_cast<std::uint64_t>(scenario));
  const auto drawn = [](std::uint64_t from, std::uint64_t n) {
    return split_mix(from + (n + 1) * kSplitMixGamma);
  };
  const CostKey& key = program.cost_keys()[program[id].cost];
  std::int64_t time = costs[program[id].cost].count();
  if (on_compute_lane(key.kind) &&
      noise::uniform(drawn(~stream, index(key.source))) < uncertainty.straggler_rate)
    time = std::llround(static_cast<double>(time) * uncertainty.straggler_factor);
  const std::uint64_t n = static_cast<std::uint64_t>(batch) * program.size() + index(id);
  return Duration(noise::Jitter(uncertainty.jitter).time(time, drawn(stream, n)));
}

/// A scenario's counted batches, by the machine.
Duration time_by_machine(const Program& program, const CostTable& costs,
                         const Uncertainty& uncertainty, const Scenarios& scenarios,
                         std::int64_t scenario) {
  const Program own = with_own_prices(program);
  CostTable table;
  for (const InstructionId id : program.order()) table.push_back(costs[program[id].cost]);
  SimulatedMachine machine(own, table);
  std::int64_t body = -program.ramp();
  const auto next = [&] { run_body(own, own.order(), body++, CompiledRun::kEndless, machine); };
  while (body <= scenarios.start().body()) next();
  Duration from{};
  for (std::int64_t batch = 0; batch < Scenarios::kWarmUp + scenarios.batches(); ++batch) {
    if (batch == Scenarios::kWarmUp) from = last_end(machine);
    for (const InstructionId id : program.order())
      table[id_at<CostId>(index(id))] = time_of(program, costs, uncertainty, scenario, batch, id);
    next();
  }
  return last_end(machine) - from;
}

class EverySchedulesScenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesScenarios, TakeWhatTheMachineTakesToTheNanosecond) {
  std::uint64_t seed = 0;
  std::size_t different = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3}, {2, 4}, 9)) {
    ++seed;
    SCOPED_TRACE(wanted.name());
    const Program program = program_of(wanted);
    CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    for (const CostId cost : ids(costs)) costs[cost] *= 1000;
    const Uncertainty uncertainty{
        .seed = seed, .jitter = 0.1, .straggler_rate = 0.3, .straggler_factor = 1.7};
    const Scenarios scenarios(program, costs, uncertainty, 1 + static_cast<std::int64_t>(seed % 2));
    const std::int64_t first = static_cast<std::int64_t>(seed % 3);
    const auto times = scenarios.times(first);
    for (std::size_t k = 0; k < times.size(); k += 3) {
      const std::int64_t scenario = first + static_cast<std::int64_t>(k);
      EXPECT_EQ(times[k], time_by_machine(program, costs, uncertainty, scenarios, scenario));
      different +=
          times[k] != time_by_machine(program, costs, uncertainty, scenarios, scenario + 1);
    }
  }
  EXPECT_GT(different, 0u) << "another scenario is another run";
}

TEST_P(EverySchedulesScenarios, TakeWhatTheRunWithoutNoiseTakesWhereThereIsNone) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {2, 3}, {4, 6}, 5)) {
    ++seed;
    SCOPED_TRACE(wanted.name());
    const Program program = program_of(wanted);
    const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    const Scenarios scenarios(program, costs, {.seed = seed}, 3);
    const SimulationResult result = simulate(program, costs, {});
    EXPECT_EQ(scenarios.batches() % result.cycle_batches, 0);
    EXPECT_EQ(scenarios.plain(), result.cycle * (scenarios.batches() / result.cycle_batches));
    for (const Duration time : scenarios.times(0)) EXPECT_EQ(time, scenarios.plain());
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesScenarios, ::testing::ValuesIn(schedule_names()),
                         test_name);

TEST(Scenarios, OfNoJitterAreDrawnAsThePlainTablesAre) {
  const Program program = program_of(pipeline("2bw", 4, 6));
  const CompiledProgram compiled(program);
  const std::vector<std::int64_t> costs = compiled.costs(random_costs(program, 1, Spread::wide));
  std::vector<std::int64_t> all;
  for (const std::int64_t cost : costs) all.insert(all.end(), CompiledProgram::kTables, cost);
  std::vector<std::int64_t> plain(compiled.values() * CompiledProgram::kTables, 0), noisy = plain;
  const std::array<std::uint64_t, CompiledProgram::kTables> streams{1, 2, 3, 4, 5, 6, 7, 8};
  for (const double jitter : {0.0, 0.01}) {
    compiled.run_bodies(plain, all);
    compiled.run_bodies(noisy, all, streams, noise::Jitter(jitter));
    EXPECT_EQ(plain == noisy, jitter == 0.0);
  }
}

TEST(Scenarios, AreTheSameInAnyOrderAndOthersFromAnotherSeed) {
  const Program program = program_of(pipeline("1f1b", 4, 8));
  const CostTable costs = plain_costs(program, {.forward = 100'000, .backward = 200'000});
  const Scenarios scenarios(program, costs, {.seed = 7, .jitter = 0.05}, 1);
  const auto later = scenarios.times(8), earlier = scenarios.times(0), between = scenarios.times(4);
  const Scenarios again(program, costs, {.seed = 7, .jitter = 0.05}, 1);
  EXPECT_EQ(again.times(0), earlier);
  EXPECT_EQ(again.times(8), later);
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(between[k], earlier[k + 4]);
    EXPECT_EQ(between[k + 4], later[k]);
  }
  EXPECT_NE(Scenarios(program, costs, {.seed = 8, .jitter = 0.05}, 1).times(0), earlier);
}

TEST(Scenarios, WhereEveryDeviceStragglesAreTheRunWithThosePrices) {
  const Program program = program_of(pipeline("1f1b", 3, 4));
  const Scenarios scenarios(program,
                            plain_costs(program, {.forward = 100, .backward = 200, .transfer = 7}),
                            {.seed = 1, .straggler_rate = 1.0, .straggler_factor = 1.5}, 1);
  const SimulationResult slow =
      simulate(program, plain_costs(program, {.forward = 150, .backward = 300, .transfer = 7}), {});
  for (const Duration time : scenarios.times(0)) EXPECT_EQ(time, slow.cycle);
  EXPECT_LT(scenarios.plain(), slow.cycle);
}

TEST(Scenarios, StraggleAsOftenAsSaid) {
  const Program program = program_of(pipeline("1f1b", 1, 1));
  const CostTable costs = plain_costs(program, {.forward = 100, .backward = 200});
  const Scenarios scenarios(program, costs,
                            {.seed = 3, .straggler_rate = 0.1, .straggler_factor = 2.0}, 1);
  int slow = 0;
  for (std::int64_t first = 0; first < 8000; first += 8) {
    for (const Duration time : scenarios.times(first)) slow += time.count() == 600;
  }
  EXPECT_NEAR(slow, 800, 4 * std::sqrt(8000 * 0.1 * 0.9));
}

TEST(Scenarios, RefuseWhatTheyCannotDraw) {
  const Program program = program_of(pipeline("1f1b", 1, 1));
  const CostTable costs = plain_costs(program, {.forward = 2'000'000'000'000});
  EXPECT_THROW(Scenarios(program, costs, {}, 1), InputError);
}

TEST(Jitter, HasTheMeanAndTheDeviationSaidAndNeighboursThatDoNotKnowEachOther) {
  constexpr std::int64_t kTime = 1'000'000'000;
  constexpr int kDraws = 200'000;
  for (const double deviation : {0.001, 0.05, 0.25}) {
    const noise::Jitter jitter(deviation);
    const std::uint64_t stream = noise::stream(7, 11), other = noise::stream(7, 12);
    double sum = 0, squares = 0, next = 0, across = 0, before = 0;
    for (std::uint64_t n = 1; n <= kDraws; ++n) {
      const auto draw = [&](std::uint64_t from) {
        const std::int64_t time = jitter.time(kTime, split_mix(from + n * kSplitMixGamma));
        EXPECT_GT(time, 0);
        return (static_cast<double>(time) / kTime - 1.0) / deviation;
      };
      const double x = draw(stream);
      sum += x;
      squares += x * x;
      next += x * before;
      across += x * draw(other);
      before = x;
    }
    const double spread = 1.0 / std::sqrt(kDraws);
    EXPECT_NEAR(sum / kDraws, 0.0, 4 * spread);
    EXPECT_NEAR(squares / kDraws, 1.0, 6 * spread);
    EXPECT_NEAR(next / kDraws, 0.0, 4 * spread);
    EXPECT_NEAR(across / kDraws, 0.0, 4 * spread);
  }
}

TEST(Jitter, OfNoneLeavesEveryTimeAsItIs) {
  for (const std::int64_t time : {std::int64_t{0}, std::int64_t{1}, noise::Jitter::kLongest}) {
    EXPECT_EQ(noise::Jitter().time(time, 0), time);
    EXPECT_EQ(noise::Jitter(0.0).time(time, ~std::uint64_t{0}), time);
  }
  EXPECT_NE(noise::Jitter(0.01).time(1'000'000, 0), 1'000'000);
}

}  // namespace
}  // namespace tandem::testing
