// CompiledProgram against the machine that defines simulated time: every schedule, sizes, random
// prices, state by state and tally by tally.

#include "simulator/compiled/compiled_program.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/schedules/common.h"
#include "simulator/compiled/compiled_run.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

std::vector<std::int64_t> state_of(const SimulatedMachine& machine, std::int64_t body) {
  std::vector<std::int64_t> state;
  machine.append_state(body, state);
  return state;
}

/// Body by body: the same use of each device, and the same state; near the end only of lanes, since
/// what instances that never ran are said to have ended is read by nobody.
void expect_same_run(const Program& program, const CostTable& costs, std::int64_t batches) {
  const CompiledProgram compiled(program);
  CompiledRun run(program, compiled, costs);
  SimulatedMachine machine(program, costs);
  for (std::int64_t body = -program.ramp(); body < batches; ++body) {
    run_body(program, program.order(), body, batches, machine);
    run.run_to(body, batches, true);
    std::vector<std::int64_t> expected = state_of(machine, body);
    std::vector<std::int64_t> state(run.state().begin(), run.state().end());
    if (body >= batches - program.ramp()) {
      expected.resize(program.lanes().size());
      state.resize(program.lanes().size());
    }
    ASSERT_EQ(state, expected) << "after body " << body;
    ASSERT_EQ(run.tallies(), machine.tallies()) << "after body " << body;
  }
}

class EveryScheduleCompiled : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScheduleCompiled, EqualsTheMachineToTheNanosecond) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {1, 2, 4, 6})) {
    for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
      SCOPED_TRACE(wanted.name());
      const Program program = program_of(wanted, lanes);
      const auto spread = static_cast<Spread>(++seed % 3);
      const CostTable costs = random_costs(program, seed, spread);
      const auto batches = static_cast<std::int64_t>(2 * program.ramp() + seed % 5);
      ASSERT_NO_FATAL_FAILURE(expect_same_run(program, costs, batches));
    }
  }
}

TEST_P(EveryScheduleCompiled, NoticesOneNanosecondOfAnyPrice) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {2, 4}, {4})) {
    const Program program = program_of(wanted);
    const CostTable costs = random_costs(program, 5, Spread::near_equal);
    for (const CostId cost : ids(costs)) {
      CostTable wrong = costs;
      // What a transfer or one of several sums takes longer may hide behind another.
      const bool slack = !is_compute(program.cost_keys()[cost].kind);
      wrong[cost] += Duration(slack ? 100'000 : 1);
      const CompiledProgram compiled(program);
      CompiledRun run(program, compiled, wrong);
      SimulatedMachine machine(program, costs);
      const std::int64_t last = 3;
      run.run_to(last, CompiledRun::kEndless, true);
      for (std::int64_t body = -program.ramp(); body <= last; ++body) {
        run_body(program, program.order(), body, CompiledRun::kEndless, machine);
      }
      const std::vector<std::int64_t> state(run.state().begin(), run.state().end());
      EXPECT_TRUE(state != state_of(machine, last) || run.tallies() != machine.tallies())
          << wanted.name() << " " << name(program.cost_keys()[cost].kind);
    }
  }
}

TEST_P(EveryScheduleCompiled, RunsSeveralTablesAsEachAlone) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {2, 3}, {4, 6})) {
    const Program program = program_of(wanted);
    const CompiledProgram compiled(program);
    constexpr std::size_t k = CompiledProgram::kTables;
    std::vector<std::vector<std::int64_t>> prices, values(k), expected(k);
    for (std::size_t table = 0; table < k; ++table) {
      prices.push_back(compiled.costs(random_costs(program, 7 + table, Spread::wide)));
      expected[table].assign(compiled.values(), 0);
    }
    std::vector<std::int64_t> all_prices, all_values(k * compiled.values(), 0);
    for (std::size_t cost = 0; cost < prices[0].size(); ++cost) {
      for (std::size_t table = 0; table < k; ++table) all_prices.push_back(prices[table][cost]);
    }
    for (int body = 0; body < 4; ++body) {
      compiled.run_bodies(all_values, all_prices);
      for (std::size_t table = 0; table < k; ++table) {
        compiled.run_body(expected[table], prices[table]);
        values[table].clear();
        for (std::size_t i = 0; i < compiled.values(); ++i) {
          values[table].push_back(all_values[i * k + table]);
        }
        const std::size_t state = compiled.carry_over().size();
        values[table].resize(state);
        ASSERT_EQ(values[table],
                  std::vector(expected[table].begin(),
                              expected[table].begin() + static_cast<std::ptrdiff_t>(state)))
            << wanted.name() << " table " << table;
      }
    }
    EXPECT_NE(values[0], values[1]) << "other prices, other times";
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryScheduleCompiled, ::testing::ValuesIn(schedule_names()),
                         test_name);

TEST(CompiledProgram, EqualsTheMachineWhereIndicesNeedFourBytes) {
  const Program program = program_of(pipeline("gpipe", 13'000, 1));
  const CompiledProgram compiled(program);
  ASSERT_GT(compiled.values(), 65'536u);
  expect_same_run(program, random_costs(program, 1, Spread::wide), 3);
}

TEST(CompiledProgram, CarriesCompletionsOverSeveralBodies) {
  // A microbatch a batch, and each device four ahead of the next: a forward waits for a transfer of
  // four bodies before. Sums besides.
  Schedule schedule;
  schedule.name = "lags";
  schedule.microbatches = 1;
  schedule.width = 2;
  schedule.placement = linear_placement(4);
  schedule.order.resize(4);
  for (std::uint16_t d = 0; d < 4; ++d) {
    const auto replica = id_at<ReplicaId>(d);
    const auto ahead = static_cast<std::uint16_t>(4 * (3 - d));
    Op reduce = update(replica, 0, 1);
    reduce.kind = OpKind::reduce_gradient;
    schedule.order[id_at<DeviceId>(d)] = {forward(replica, ahead, 12), backward(replica, 0, 12),
                                          reduce, update(replica, 0, 1)};
  }
  const Program program = lower(schedule);
  ASSERT_GT(program.depth(), 3u);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    ASSERT_NO_FATAL_FAILURE(expect_same_run(program, costs, 12));
  }
}

TEST(CompiledProgram, RunsTheEndOfARunItselfWhereItCanSwitchOff) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted :
       {pipeline("2bw", 2, 8), pipeline("2bw", 4, 16), pipeline("2bw", 3, 32, 6),
        pipeline("pipedream", 3, 32), pipeline("2bw", 1, 1)}) {
    const Program program = program_of(wanted);
    EXPECT_EQ(CompiledProgram(program).can_switch_off(), program.ramp() > 0) << wanted.name();
    for (std::int64_t batches = 1; batches < 5; ++batches) {
      SCOPED_TRACE(wanted.name());
      ++seed;
      const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
      ASSERT_NO_FATAL_FAILURE(expect_same_run(program, costs, batches));
    }
  }
  // All ops work on later batches, so that a pass would not run at speed.
  Pipeline clipped = pipeline("2bw", 2, 8);
  clipped.request.global_norm = true;
  EXPECT_FALSE(CompiledProgram(program_of(clipped)).can_switch_off());
}

TEST(CompiledProgram, LeavesTheEndOfARunToTheMachineWhereAnEarlierBatchWaitsForALaterOne) {
  ProgramParts parts = program_of(pipeline("2bw", 2, 8)).parts();
  const auto late = std::ranges::find_if(
      parts.instructions, [](const Instruction& one) { return one.op.microbatch >= 8; });
  ASSERT_NE(late, parts.instructions.end());
  const auto producer =
      id_at<InstructionId>(static_cast<std::size_t>(late - parts.instructions.begin()));
  ASSERT_LT(parts.instructions.back().op.microbatch, 8);
  for (const std::uint32_t lag : {0u, 1u}) {
    ProgramParts changed = parts;
    Instruction& waiter = changed.instructions.back();
    waiter.first_wait = static_cast<std::uint32_t>(changed.wait_pool.size());
    waiter.wait_count = 1;
    changed.wait_pool.push_back({producer, lag});
    const Program program(std::move(changed));
    EXPECT_EQ(CompiledProgram(program).can_switch_off(), lag == 1) << lag;
    for (std::int64_t batches = 1; batches < 4; ++batches) {
      expect_same_run(program, random_costs(program, 3, Spread::wide), batches);
    }
  }
}

TEST(CompiledProgram, NeedsAboutAStepAnInstructionAndFewValues) {
  const Program program = program_of(pipeline("1f1b", 8, 512));
  const CompiledProgram compiled(program);
  EXPECT_EQ(compiled.steps(), program.size());
  EXPECT_LT(compiled.values(), 20u * 8u);
}

}  // namespace
}  // namespace tandem::testing
