// What is read from the ops of a schedule that somebody brings, and what it is given.

#include "core/schedule/user_schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/notation/notation.h"
#include "core/verify/verify.h"
#include "tests/core/error_of.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kTwoStages =
    "# mine  devices 2  microbatches 2\n"
    "0 | f0 f1 b0 b1 U\n"
    "1 | f0 b0 f1 b1 U\n";

TEST(UserSchedule, ItsOpsSayWhatTheRowOfARegisteredOneDoes) {
  for (const ScheduleTraits& row : schedules()) {
    for (const Pipeline& wanted : every_pipeline(row.name, {2, 4}, {4, 8})) {
      // One stage, or one microbatch in flight, stashes nothing.
      if (row.weights == WeightSemantics::stashed && wanted.request.devices == 1) continue;
      EXPECT_EQ(weight_semantics(schedule_of(wanted)), row.weights) << wanted.name();
    }
  }
}

TEST(UserSchedule, ThatIsRightMayBeOneThatCannotBeTrained) {
  const auto reason = [](const std::string& text) {
    const Schedule schedule = completed(parse_schedule(text), {});
    EXPECT_THAT(verify(lower(schedule)), IsEmpty()) << text;
    return reason_not_trained(schedule).value_or("");
  };
  EXPECT_EQ(reason(std::string(kTwoStages)), "");
  EXPECT_EQ(reason("# apart  devices 2  microbatches 1\n# edges none\n0 | f0 b0 U\n1 | f0 b0 U\n"),
            "no edge leads from stage 0 to stage 1");
  EXPECT_EQ(reason("# skips  devices 3  microbatches 1\n# edges 0>1 0>2 1>2\n"
                   "0 | f0 b0 U\n1 | f0 b0 U\n2 | f0 b0 U\n"),
            "an edge leads from stage 0 to stage 2, not to the stage after it");
  EXPECT_EQ(
      reason("# uneven  devices 1  microbatches 3\n0 | f0 b0 U0+1 f1 f2 b1 b2 U2+2\n"),
      "stage 0 (device 0): the update U0 covers 1 of the batch's microbatches and U2 covers 2: "
      "all updates of a stage must cover equally many");
  EXPECT_EQ(reason("# parts  devices 1  microbatches 1  slices 2\n"
                   "0 | f0 f1~1 b1~1 b0 U0+1 U1+1\n"),
            "stage 0 (device 0): the update U0 covers a part of a microbatch");
  EXPECT_EQ(reason("# whole  devices 1  microbatches 1  slices 2\n0 | f0 f1 b1 b0 U\n"), "");
}

TEST(UserSchedule, OfSlicesMayRecomputeStages) {
  ScheduleRequest request;
  request.recompute = Recompute::stage;
  const Schedule schedule = completed(
      parse_schedule("# again  devices 1  microbatches 1  slices 2\n0 | f0 f1 r1 b1 r0 b0 U\n"),
      request);
  EXPECT_FALSE(reason_not_trained(schedule));
  EXPECT_TRUE(verify(lower(schedule)).empty());
}

TEST(UserSchedule, ThatRecomputesSomeMicrobatchesOnlyIsNotRight) {
  ScheduleRequest request;
  request.recompute = Recompute::stage;
  const Schedule schedule = completed(
      parse_schedule("# some  devices 1  microbatches 2\n0 | f0 f1 r0 b0 b1 U\n"), request);
  const std::vector<Violation> found = verify(lower(schedule));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "no recomputation, as of others, of microbatch 1 on stage 0 (device 0)");
}

TEST(UserSchedule, GetsWhatTheRequestAsksFor) {
  ScheduleRequest request;
  request.recompute = Recompute::stage;
  request.tied_embeddings = request.global_norm = true;
  const Schedule made = completed(parse_schedule(kTwoStages), request);
  EXPECT_EQ(print_schedule(made),
            "# mine  devices 2  microbatches 2\n# tied 0+1\n"
            "0 | f0 f1 r0 b0 r1 b1 T N U\n"
            "1 | f0 r0 b0 f1 r1 b1 T N U\n");
  EXPECT_THAT(verify(lower(made)), IsEmpty());
  EXPECT_EQ(completed(made, request), made) << "what stands in the text stays";
}

TEST(UserSchedule, IsValidatedAfterwardsWhereItsBatchesDoNotOverlap) {
  ScheduleRequest request;
  request.global_norm = request.post_validation = true;
  const Schedule made = completed(parse_schedule(kTwoStages), request);
  EXPECT_EQ(print_schedule(made),
            "# mine  devices 2  microbatches 2\n"
            "0 | b0 b1 N U f2 f3 V\n"
            "1 | b0 f1 b1 N U f2 V\n");
  EXPECT_THAT(verify(lower(made)), IsEmpty());
  EXPECT_EQ(completed(made, request), made) << "what stands in the text stays";
  for (const char* text : {"# late  devices 1  microbatches 1  staleness 1\n0 | f1 b0 U0\n",
                           "# two  devices 1  microbatches 2\n0 | f0 b0 U0+1 f1 b1 U1+1\n"}) {
    const Schedule other = parse_schedule(text);
    EXPECT_THAT(
        error_of([&] { completed(other, request); }),
        HasSubstr("post-validation needs a norm of all gradients (--clip NORM), one update"));
  }
}

TEST(UserSchedule, ThatReadsTheNewestWeightsIsRefusedWhatNoSuchScheduleCan) {
  const Schedule mine = parse_schedule(
      "# mine  devices 2  microbatches 1  reads newest\n0 | f1~1 b0 U\n1 | f0 b0 U\n");
  EXPECT_EQ(weight_semantics(mine), WeightSemantics::latest);
  EXPECT_THAT(verify(lower(mine)), IsEmpty());
  EXPECT_EQ(completed(mine, {}), mine);
  ScheduleRequest request;
  request.devices = 2;
  request.recompute = Recompute::full;
  EXPECT_THAT(error_of([&] { completed(mine, request); }),
              HasSubstr("schedule \"mine\" can't recompute activations"));
  request.recompute = Recompute::none;
  request.tied_embeddings = true;
  EXPECT_THAT(error_of([&] { completed(mine, request); }),
              HasSubstr("schedule \"mine\" can't train tied embeddings"));
  request.tied_embeddings = false;
  request.global_norm = true;
  EXPECT_THAT(error_of([&] { completed(mine, request); }),
              HasSubstr("schedule \"mine\" has no global norm"));
}

// Planes are of steps that stay, of no other correction, and of each stage for a time of its own.
TEST(UserSchedule, ThatPredictsWeightsIsRefusedWhatNoSuchScheduleCan) {
  const auto text = [](const char* readings) {
    return fmt::format(
        "# mine  devices 2  microbatches 2  staleness 1\n{}0 | f2 b0 f3 b1 U\n1 | f0 b0 f1 b1 U\n",
        readings);
  };
  const Schedule mine = parse_schedule(text("# readings 1:1:0:0 0:0:0:0\n"));
  EXPECT_EQ(weight_semantics(parse_schedule(text(""))), WeightSemantics::delayed_by_one);
  EXPECT_EQ(weight_semantics(mine), WeightSemantics::stashed) << "so that delay is not corrected";
  EXPECT_EQ(completed(mine, {}), mine);
  ScheduleRequest request;
  request.devices = 2;
  request.tied_embeddings = true;
  EXPECT_THAT(error_of([&] { completed(mine, request); }),
              HasSubstr("schedule \"mine\" can't train tied embeddings: each stage reads weights"));
  request.tied_embeddings = false;
  request.global_norm = true;
  const Schedule validates =
      parse_schedule("# mine  devices 1  microbatches 1\n# readings 1:1:0:0\n0 | b0 N U f1 V\n");
  EXPECT_THAT(error_of([&] { completed(validates, request); }),
              HasSubstr("schedule \"mine\" has no use for post-validation"));
}

TEST(UserSchedule, ThatReadsVerticallyTakesOnEveryStageWhatTheFirstOneHad) {
  const auto found = [](const char* rule, const char* first, const char* second) {
    const Schedule mine = parse_schedule(fmt::format(
        "# mine  devices 2  microbatches 2  reads {}\n0 | {} U\n1 | {}\n", rule, first, second));
    std::vector<std::string> messages;
    for (const Violation& violation : verify(lower(completed(mine, {}))))
      messages.push_back(violation.message);
    return messages;
  };
  const char *const first = "f2~1 f3~1 b0 b1", *const second = "f0~1 f1~1 b0 b1 U";
  EXPECT_THAT(found("vertical", first, second), IsEmpty());
  EXPECT_THAT(found("vertical", first, "f0~1 f1 b0 b1 U"),
              ElementsAre("f1 (stage 1, microbatch 1, device 1): microbatch 1 uses weights 1 "
                          "updates newer than those with which it entered the first stage"));
  EXPECT_THAT(found("vertical", first, "f0~2 f1~1 b0 b1 U"),
              ElementsAre(HasSubstr("uses weights 1 updates older than those with which it ")));
  EXPECT_THAT(found("vertical", "f2~2 f3~1 b0 b1", "f0~2 f1~1 b0 b1 U"),
              ElementsAre(HasSubstr("2 updates old, may not be the newest")));
  EXPECT_THAT(found("vertical", first, "f0~1 f1~1 b0~1 b1 U"),
              ElementsAre(HasSubstr("1 updates old, may not be the newest")));
  EXPECT_THAT(found("vertical", first, "f0~1 f1~2 b0 U0+1 b1 U1+1"),
              ::testing::Contains(HasSubstr("which updates 1 times a batch, this one 2 times")));
  EXPECT_THAT(found("newest", first, second), ::testing::SizeIs(2)) << "the second has newer ones";
  EXPECT_THAT(found("same", first, second), ::testing::SizeIs(4)) << "backwards read others";
}

TEST(UserSchedule, ThatContradictsTheRequestIsRefused) {
  ScheduleRequest all;
  all.recompute = Recompute::stage;
  all.tied_embeddings = true;
  const Schedule made = completed(parse_schedule(kTwoStages), all);
  const auto refused = [&](auto change) {
    ScheduleRequest request = all;
    change(request);
    return error_of([&] { completed(made, request); });
  };
  EXPECT_THAT(refused([](ScheduleRequest& request) { request.tied_embeddings = false; }),
              HasSubstr("\"mine\" ties stages of the model that share no parameters"));
  EXPECT_THAT(refused([](ScheduleRequest& request) { request.recompute = Recompute::none; }),
              HasSubstr("\"mine\" recomputes forwards: its plan has to say so"));
  EXPECT_THAT(refused([](ScheduleRequest& request) { request.global_norm = true; }),
              HasSubstr("\"mine\" names its sums, but not the norm"));
  Schedule apart = made;
  apart.width = 2;
  for (std::vector<Op>& order : apart.order)
    std::erase_if(order, [](const Op& op) { return op.kind == OpKind::reduce_gradient; });
  EXPECT_THAT(
      error_of([&] { completed(apart, all); }),
      HasSubstr("\"mine\" names its sums, but not those of gradients over its 2 pipelines"));
}

}  // namespace
}  // namespace tandem::testing
