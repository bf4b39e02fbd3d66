// Programs of forwards alone: each microbatch goes once through the model, whatever the schedule
// that the order comes from.

#include <algorithm>

#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/passes.h"
#include "core/verify/verify.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

Schedule forwards_of(std::string_view schedule, int devices, std::int32_t microbatches) {
  Schedule made = schedule_of(pipeline(schedule, devices, microbatches));
  keep_forwards(made);
  return made;
}

bool has(const std::vector<Violation>& found, ViolationKind kind) {
  return std::ranges::any_of(found, [kind](const Violation& one) { return one.kind == kind; });
}

TEST(KeepForwards, OfEveryScheduleMakesAProgramThatIsAccepted) {
  int tried = 0;
  for (const ScheduleTraits& traits : schedules()) {
    for (const int devices : {1, 2, 4}) {
      const Pipeline wanted = pipeline(traits.name, devices, 8);
      if (reason_against(traits, wanted.request)) continue;
      const Program program = lower(forwards_of(traits.name, devices, 8));
      EXPECT_TRUE(program.forwards_alone());
      const std::vector<Violation> found = verify(program);
      EXPECT_TRUE(found.empty()) << traits.name << " " << devices << ": " << found.front().message;
      const auto forwards = std::ranges::count_if(
          program.instructions(), [](const auto& each) { return each.op.kind == OpKind::forward; });
      EXPECT_EQ(forwards, 8 * static_cast<std::ptrdiff_t>(program.placement().stages()))
          << traits.name;
      ++tried;
    }
  }
  EXPECT_GT(tried, 50);
}

TEST(KeepForwards, HoldsNoStashAndABoundaryForEachMicrobatch) {
  const SlotCounts slots = count_slots(lower(forwards_of("1f1b", 3, 5)));
  for (const ReplicaId replica : ids(slots)) {
    EXPECT_EQ(slots[replica][SlotKind::weights], 1);
    EXPECT_EQ(slots[replica][SlotKind::stash], 1);
    EXPECT_EQ(slots[replica][SlotKind::gradients], 0);
    EXPECT_EQ(slots[replica][SlotKind::input], replica == ReplicaId{0} ? 0 : 5);
    EXPECT_EQ(slots[replica][SlotKind::output], replica == ReplicaId{2} ? 0 : 5);
  }
}

// Negative controls: what is not as it must be is told.
TEST(KeepForwards, IsVerified) {
  const Program program = lower(forwards_of("1f1b", 3, 5));
  SlotCounts few = count_slots(program);
  few[ReplicaId{1}][SlotKind::input] = 4;
  EXPECT_TRUE(has(verify(program, few), ViolationKind::slot_overwritten));
  few = count_slots(program);
  few[ReplicaId{1}][SlotKind::weights] = 0;
  EXPECT_TRUE(has(verify(program, few), ViolationKind::version_overwritten));

  ProgramParts parts = program.parts();
  for (Instruction& instruction : parts.instructions) {
    if (instruction.op.kind == OpKind::forward && instruction.op.replica == ReplicaId{1})
      instruction.wait_count = 0;
  }
  EXPECT_TRUE(has(verify(Program(parts)), ViolationKind::missing_wait));
  // The same instructions, but said to train.
  parts = program.parts();
  parts.forwards_alone = false;
  EXPECT_TRUE(has(verify(Program(parts)), ViolationKind::missing_op));
  // A whole program, but said not to.
  parts = lower(schedule_of(pipeline("1f1b", 3, 5))).parts();
  parts.forwards_alone = true;
  EXPECT_TRUE(has(verify(Program(parts)), ViolationKind::malformed));
}

}  // namespace
}  // namespace tandem::testing
