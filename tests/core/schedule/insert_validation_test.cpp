// Post-validation as a change of order: what moves, what waits, and what verify() refuses.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/notation/notation.h"
#include "core/schedule/passes.h"
#include "core/verify/verify.h"
#include "tests/core/draft.h"
#include "tests/support/pipelines.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

Pipeline validated(std::string_view schedule, int devices, std::int32_t microbatches) {
  Pipeline wanted = pipeline(schedule, devices, microbatches);
  wanted.request.global_norm = wanted.request.post_validation = true;
  return wanted;
}

InstructionId find(const Program& program, OpKind kind, ReplicaId replica) {
  for (const InstructionId id : program.order()) {
    if (program[id].op.kind == kind && program[id].op.replica == replica) return id;
  }
  ADD_FAILURE() << name(kind);
  return {};
}

bool waits_for(const Program& program, InstructionId id, InstructionId producer) {
  return std::ranges::any_of(program.waits(program[id]),
                             [&](const Wait& wait) { return wait.producer == producer; });
}

/// The kinds of violation, each once.
std::vector<ViolationKind> kinds_of(const std::vector<Violation>& found) {
  std::vector<ViolationKind> kinds;
  for (const Violation& each : found) {
    if (!std::ranges::count(kinds, each.kind)) kinds.push_back(each.kind);
  }
  return kinds;
}

TEST(InsertValidation, RunsTheForwardsAheadBeforeTheValidates) {
  EXPECT_EQ(print_schedule(schedule_of(validated("zb-h2", 3, 6))),
            "# zb-h2  devices 3  microbatches 6\n"
            "0 | i0 w0 f5 i1 w1 i2 w2 i3 w3 i4 w4 i5 w5 N U f6 f7 f8 f9 f10 V\n"
            "1 | i0 f3 i1 f4 i2 w0 f5 i3 w1 i4 w2 i5 w3 w4 w5 N U f6 f7 f8 V\n"
            "2 | i0 f1 i1 f2 i2 f3 i3 f4 i4 w0 f5 i5 w1 w2 w3 w4 w5 N U f6 V\n");
  // Of both stages of a device, in the order of the model.
  const Schedule folded = schedule_of(validated("zbv", 2, 4));
  for (const std::vector<Op>& order : folded.order) {
    const Op &first = *(order.end() - 2), &then = order.back();
    EXPECT_TRUE(first.kind == OpKind::validate && then.kind == OpKind::validate);
    EXPECT_LT(folded.placement.stage[first.replica], folded.placement.stage[then.replica]);
  }
}

TEST(InsertValidation, IsReadBackFromItsNotation) {
  const Schedule schedule = schedule_of(validated("zbv", 2, 4));
  EXPECT_EQ(parse_schedule(print_schedule(schedule), "v"), schedule);
}

TEST(InsertValidation, LetsTheValidateWaitInPlaceOfTheUpdate) {
  const Program program = program_of(validated("zb-h1", 3, 4));
  const InstructionId norm = find(program, OpKind::reduce_norm, ReplicaId{0});
  for (const ReplicaId replica : ids(program.placement().device)) {
    EXPECT_TRUE(waits_for(program, find(program, OpKind::validate, replica), norm));
    EXPECT_FALSE(waits_for(program, find(program, OpKind::update, replica), norm));
  }
}

TEST(InsertValidation, TakesOneMoreVersionThanWithoutANormAndNothingElse) {
  for (const char* name : {"zb-h1", "zb-h2", "zbv", "1f1b", "gpipe", "v-half"}) {
    Pipeline wanted = validated(name, 3, 6);
    const SlotCounts with = count_slots(program_of(wanted));
    wanted.request.global_norm = wanted.request.post_validation = false;
    SlotCounts without = count_slots(program_of(wanted));
    for (const ReplicaId replica : ids(with)) {
      ++without[replica][SlotKind::weights];
      EXPECT_EQ(with[replica].counts, without[replica].counts)
          << name << " stage " << index(replica);
    }
  }
}

TEST(InsertValidation, IsRefusedWhereItIsOfNoUse) {
  const auto reason = [](Pipeline wanted) {
    return reason_against(find_schedule(wanted.schedule), wanted.request).value_or("none");
  };
  EXPECT_EQ(reason(validated("zb-h2", 2, 4)), "none");
  EXPECT_THAT(reason(validated("2bw", 2, 4)), HasSubstr("2bw has no use for post-validation"));
  EXPECT_THAT(reason(validated("pipedream", 2, 4)), HasSubstr("has no global norm"));
  EXPECT_THAT(reason(validated("bpipe", 2, 4)), HasSubstr("evicts stashes"));
  Pipeline unasked = validated("zb-h2", 2, 4);
  unasked.request.global_norm = false;
  EXPECT_THAT(reason(unasked), HasSubstr("(--clip NORM)"));
}

/// On device 1 all forwards come first; but 1f1 is fed by what device 0 does behind a backward.
Schedule fed_late() {
  Schedule schedule = parse_schedule(
      "# late  devices 2  microbatches 2\n"
      "# stages 0 1 1 0\n"
      "0 | 0f0 3f0 3b0 0f1 3f1 3b1 0b0 0b1 0U 3U\n"
      "1 | 1f0 2f0 1f1 2f1 2b0 1b0 2b1 1b1 1U 2U\n",
      "late");
  insert_reduction(schedule, true);
  return schedule;
}

TEST(InsertValidation, LeavesBehindWhatIsFedByAForwardThatIsValidated) {
  Schedule schedule = fed_late();
  insert_validation(schedule);
  EXPECT_EQ(print_schedule(schedule),
            "# late  devices 2  microbatches 2\n"
            "# stages 0 1 1 0\n"
            "0 | 3b0 0f1 3f1 3b1 0b0 0b1 0N 0U 3N 3U 0f2 3f2 0V 3V\n"
            "1 | 1f1 2f1 2b0 1b0 2b1 1b1 1N 1U 2N 2U 1f2 2f2 1V 2V\n");
  const Program program = lower(schedule);
  EXPECT_EQ(kinds_of(verify(program)), std::vector<ViolationKind>{});
  EXPECT_TRUE(faults(program, count_slots(program), 4).empty());
}

TEST(InsertValidation, WouldDeadlockInARollbackWereItNotLeftBehind) {
  const Program program =
      lower(parse_schedule("# late  devices 2  microbatches 2\n"
                           "# stages 0 1 1 0\n"
                           "0 | 0f2 3f2 0V1 3V1 3b2 0f3 3f3 3b3 0b2 0b3 0N3 0U3 3N3 3U3\n"
                           "1 | 1f2 2f2 1f3 2f3 1V1 2V1 2b2 1b2 2b3 1b3 1N3 1U3 2N3 2U3\n",
                           "late"));
  const std::vector<Violation> found = verify(program);
  EXPECT_EQ(kinds_of(found), std::vector<ViolationKind>{ViolationKind::deadlock});
  EXPECT_THAT(found.at(0).message, HasSubstr("a rollback would wait for itself"));
}

// ---- What verify() refuses ----

class BrokenValidation : public ::testing::Test {
 protected:
  BrokenValidation() : program_(program_of(validated("zb-h1", 2, 4))), whole_(program_) {}

  std::vector<ViolationKind> refused(const Draft& broken) const {
    return kinds_of(verify(broken.build(), count_slots(program_)));
  }

  Program program_;
  Draft whole_;
};

TEST_F(BrokenValidation, IsFineWhole) { EXPECT_TRUE(refused(whole_).empty()); }

TEST_F(BrokenValidation, WithoutAValidate) {
  Draft broken = whole_;
  broken.drop(index(find(program_, OpKind::validate, ReplicaId{1})));
  EXPECT_THAT(refused(broken), ::testing::Contains(ViolationKind::missing_op));
}

TEST_F(BrokenValidation, WithoutTheWaitForTheNorm) {
  Draft broken = whole_;
  broken.rows[index(find(program_, OpKind::validate, ReplicaId{0}))].waits.clear();
  EXPECT_THAT(refused(broken), ::testing::ElementsAre(ViolationKind::missing_wait));
}

TEST_F(BrokenValidation, WithoutANorm) {
  Draft broken = whole_;
  broken.drop(index(find(program_, OpKind::reduce_norm, ReplicaId{0})));
  EXPECT_THAT(refused(broken), ::testing::Contains(ViolationKind::missing_op));
}

TEST_F(BrokenValidation, BehindABackwardThatCannotBeDoneAgain) {
  Schedule schedule = schedule_of(validated("zb-h1", 2, 4));
  std::vector<Op>& order = schedule.order[DeviceId{1}];
  ASSERT_EQ(order.front().kind, OpKind::backward_input);
  order.front().microbatch += 4;
  std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  EXPECT_THAT(kinds_of(verify(lower(schedule))), ::testing::Contains(ViolationKind::missing_wait));
}

TEST_F(BrokenValidation, BeforeItsUpdate) {
  Schedule schedule = schedule_of(validated("zb-h1", 2, 4));
  std::vector<Op>& order = schedule.order[DeviceId{1}];
  const auto update = std::ranges::find(order, OpKind::update, &Op::kind);
  std::rotate(update, order.end() - 1, order.end());
  EXPECT_THROW(lower(schedule), InfeasibleError);
}

TEST(BrokenValidations, InAnotherOrderThanTheModels) {
  Schedule schedule = schedule_of(validated("zbv", 2, 4));
  std::vector<Op>& order = schedule.order[DeviceId{0}];
  std::swap(order.back(), *(order.end() - 2));
  EXPECT_THAT(kinds_of(verify(lower(schedule))), ::testing::Contains(ViolationKind::missing_wait));
}

TEST(BrokenValidations, WithAForwardAheadBetweenThem) {
  Schedule schedule = schedule_of(validated("zbv", 2, 4));
  std::vector<Op>& order = schedule.order[DeviceId{0}];
  ASSERT_EQ((order.end() - 3)->kind, OpKind::forward);
  ASSERT_EQ((order.end() - 3)->replica, order.back().replica);
  std::swap(*(order.end() - 3), *(order.end() - 2));
  EXPECT_THAT(kinds_of(verify(lower(schedule))), ::testing::Contains(ViolationKind::missing_wait));
}

}  // namespace
}  // namespace tandem::testing
