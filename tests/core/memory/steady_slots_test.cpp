// count_slots() leaves periods of a steady part out: it must count what it would have counted.

#include "core/memory/steady_slots.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

class EverySchedulesSteadySlots : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesSteadySlots, AreThoseOfAllPeriods) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {12, 24, 36}, 3)) {
    const Program program = program_of(wanted);
    EXPECT_EQ(count_slots(program), slots::count(program, {})) << wanted.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesSteadySlots,
                         ::testing::ValuesIn(schedule_names()), test_name);

/// The same, but that late in the batch a backward of the first device waits for no gradient: from
/// then until the next one it knows less of what has ended.
Program forgetful(const Program& program) {
  ProgramParts parts = program.parts();
  for (Instruction& instruction : parts.instructions) {
    const Op& op = instruction.op;
    const bool late = 4 * op.microbatch > 3 * program.microbatches();
    if (!late || op.replica != ReplicaId{0} || !makes_input_gradient(op.kind)) continue;
    EXPECT_EQ(instruction.wait_count, 1);
    instruction.wait_count = 0;
    break;
  }
  return Program(std::move(parts));
}

TEST(SteadySlots, AreNotThoseOfAPartThatIsNotSteady) {
  for (const char* name : {"1f1b", "2bw", "zb-h1"}) {
    const Program regular = program_of(pipeline(name, 2, 96)), program = forgetful(regular);
    const SlotCounts counted = slots::count(program, {});
    EXPECT_EQ(count_slots(program), counted) << name;
    EXPECT_NE(counted, count_slots(regular)) << name;
    // It is left out where it is told to be.
    EXPECT_EQ(slots::count(program, steady_part(regular)), count_slots(regular)) << name;
  }
}

TEST(SteadySlots, LeaveNothingOutThatIsNotOfPasses) {
  const auto steady = [](const char* name, int devices, std::int32_t microbatches) {
    const Program program = program_of(pipeline(name, devices, microbatches));
    return slots::steady_uses(program, slots::SlotUses(program), steady_part(program)).has_value();
  };
  EXPECT_TRUE(steady("1f1b", 4, 48));
  EXPECT_FALSE(steady("1f1b", 4, 8));        // too short
  EXPECT_FALSE(steady("pipedream", 4, 48));  // updates after each microbatch
  EXPECT_FALSE(steady("looped-bfs", 4, 48));
}

}  // namespace
}  // namespace tandem::testing
