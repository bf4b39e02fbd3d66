// The simulated machine against two oracles: the same program unrolled to a graph, and the schedule
// unrolled by its meaning, which holds lower() to account too.

#include <map>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "simulator/engine/simulated_machine.h"
#include "tests/support/meaning.h"
#include "tests/support/pipelines.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

Timeline simulated(const Program& program, const CostTable& costs, std::int64_t batches) {
  Timeline timeline;
  SimulatedMachine machine(program, costs, &timeline);
  run(program, program.order(), batches, machine);
  return timeline;
}

/// Says where two runs part, not only that they do.
void expect_same(const std::map<OpKey, Times>& machine, const std::map<OpKey, Times>& oracle) {
  ASSERT_EQ(machine.size(), oracle.size());
  for (const auto& [key, times] : oracle) {
    const auto found = machine.find(key);
    ASSERT_NE(found, machine.end());
    ASSERT_EQ(found->second, times)
        << name(std::get<OpKind>(key)) << " of stage " << index(std::get<ReplicaId>(key))
        << " for microbatch " << std::get<std::int64_t>(key) << ": " << found->second.start.count()
        << " to " << found->second.end.count() << ", expected " << times.start.count() << " to "
        << times.end.count();
  }
}

void expect_meaning(const Schedule& schedule, TransferLanes lanes, const CostModel& prices,
                    std::int64_t batches) {
  const Program program = lower(schedule, lanes);
  const CostTable costs = price(program, prices);
  expect_same(times_of(program, simulated(program, costs, batches)),
              times_by_meaning(schedule, program, lanes, prices, batches));
}

class EverySchedulesTimes : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesTimes, RunsAsItsMeaningSays) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {1, 2, 4, 6})) {
    SCOPED_TRACE(wanted.name());
    const Schedule schedule = schedule_of(wanted);
    std::uint64_t seed = 1;
    for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
      for (const Spread spread : {Spread::wide, Spread::near_equal, Spread::tiny}) {
        const std::int64_t batches = seed++ % 2 == 0 ? 1 : 3;
        ASSERT_NO_FATAL_FAILURE(
            expect_meaning(schedule, lanes, random_prices(seed, spread), batches));
      }
    }
  }
}

TEST_P(EverySchedulesTimes, RunsAsItsProgramUnrolled) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4, 5}, {2, 4, 6})) {
    const Program program = program_of(wanted);
    const CostTable costs = random_costs(program, 7, Spread::wide);
    EXPECT_EQ(simulated(program, costs, 2).spans, longest_path(program, costs, 2)) << wanted.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesTimes, ::testing::ValuesIn(schedule_names()),
                         test_name);

/// Any order in which each device runs its ops is a schedule, as long as it can be run: ops are
/// issued in a random order in which each comes after what it needs.
Schedule random_legal_order(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  Schedule schedule;
  schedule.name = "random";
  const auto devices = static_cast<std::uint16_t>(1 + below(5));
  schedule.microbatches = static_cast<std::int32_t>(1 + below(5));
  schedule.placement = below(2) == 0 ? linear_placement(devices) : v_placement(devices);
  schedule.order.resize(devices);
  const Placement& placement = schedule.placement;
  std::map<std::tuple<OpKind, std::size_t, std::int32_t>, bool> done;
  std::size_t left = 2 * placement.replicas() * static_cast<std::size_t>(schedule.microbatches);
  while (left > 0) {
    const OpKind kind = below(2) == 0 ? OpKind::forward : OpKind::backward;
    const auto stage = below(placement.replicas());
    const auto microbatch =
        static_cast<std::int32_t>(below(static_cast<std::uint64_t>(schedule.microbatches)));
    const bool last = stage + 1 == placement.replicas();
    const bool ready = kind == OpKind::forward ? stage == 0 || done[{kind, stage - 1, microbatch}]
                                               : done[{OpKind::forward, stage, microbatch}] &&
                                                     (last || done[{kind, stage + 1, microbatch}]);
    if (!ready || done[{kind, stage, microbatch}]) continue;
    done[{kind, stage, microbatch}] = true;
    --left;
    const auto id = id_at<ReplicaId>(stage);
    schedule.order[placement.device[id]].push_back(
        {.kind = kind, .replica = id, .microbatch = microbatch});
  }
  for (const ReplicaId replica : ids(placement.device)) {
    schedule.order[placement.device[replica]].push_back(
        {.kind = OpKind::update,
         .replica = replica,
         .microbatch = schedule.microbatches - 1,
         .span = static_cast<std::uint16_t>(schedule.microbatches)});
  }
  return schedule;
}

TEST(RandomOrders, RunAsTheirMeaningSays) {
  std::mt19937_64 random(20200616);
  for (int i = 0; i < 200; ++i) {
    const Schedule schedule = random_legal_order(random);
    const TransferLanes lanes = i % 2 == 0 ? TransferLanes::shared : TransferLanes::ideal;
    const Spread spread = i % 3 == 0 ? Spread::tiny : Spread::wide;
    ASSERT_NO_FATAL_FAILURE(
        expect_meaning(schedule, lanes, random_prices(random(), spread), 1 + i % 3))
        << "order " << i;
  }
}

TEST(MachinesAgree, NoticesOneNanosecond) {
  const Pipeline wanted = pipeline("2bw", 3, 4);
  const Schedule schedule = schedule_of(wanted);
  const Program program = lower(schedule);
  const CostModel prices = plain_prices({.forward = 10, .backward = 20, .transfer = 3});
  CostTable wrong = price(program, prices);
  wrong[program[InstructionId{0}].cost] += Duration(1);
  EXPECT_NE(times_of(program, simulated(program, wrong, 2)),
            times_by_meaning(schedule, program, TransferLanes::shared, prices, 2));
}

TEST(MachinesAgree, NoticesADroppedWait) {
  const Program program = program_of(pipeline("1f1b", 3, 4));
  const CostModel prices = plain_prices({.forward = 10, .backward = 20, .transfer = 3});
  const auto oracle = times_by_meaning(schedule_of(pipeline("1f1b", 3, 4)), program,
                                       TransferLanes::shared, prices, 2);
  int noticed = 0, waits = 0;
  for (const InstructionId id : program.order()) {
    if (program[id].wait_count == 0) continue;
    ProgramParts parts = program.parts();
    parts.instructions[index(id)].wait_count = 0;
    const Program broken(std::move(parts));
    const auto times = times_of(broken, simulated(broken, price(broken, prices), 2));
    ++waits;
    if (times != oracle) ++noticed;
  }
  // A wait may be hidden by slack at these prices, but most are not.
  EXPECT_GT(noticed, waits / 2);
}

}  // namespace
}  // namespace tandem::testing
