// Timelines written in the published form, read back; and what is wrong with others.

#include "traces/recorded/recorded_pipeline.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"
#include "tests/support/production_timeline.h"
#include "tests/support/recordings.h"
#include "tests/traces/expect_same.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Recording two_replicas() {
  return recording_of({two_stages({}, 23, 0), two_stages({}, 23, 1, ms(7)), two_stages({}, 40, 0),
                       two_stages({}, 40, 1)});
}

Recording read(const std::string& text) { return read_recording({text, "t.json"}); }
std::string recording_error(const std::string& text) {
  return error_of([&] { read(text); });
}

/// The text of two_replicas() with its first event, a forward-compute, changed.
std::string changed(std::string_view part, std::string_view instead) {
  return with(timeline_text(two_replicas()), part, instead);
}

TEST(RecordedPipeline, IsReadAsItWasWritten) {
  const Recording written = two_replicas();
  const std::string text = timeline_text(written);
  expect_same(read(text), written);
  expect_same(read(fmt::format(R"({{"traceEvents": {}, "unit": "ms"}})", text)), written);
  EXPECT_THAT(read(text).warnings, IsEmpty());
  EXPECT_EQ(read(text).whole_steps.at(23), ms(100));
}

TEST(RecordedPipeline, OtherWorkOnlyMakesTheStepLonger) {
  const Recording recording = read(
      changed("[", "[" + timeline_event("params-all-gather", 0, 3, -30, 25, 23, 0, -1) + ",\n" +
                       timeline_event("optimizer", 0, 0, 110, 10, 23, -1, -1) + ",\n"));
  EXPECT_EQ(recording.whole_steps.at(23), ms(150));
  EXPECT_EQ(recording.whole_steps.at(40), ms(93));
  EXPECT_THAT(recording.warnings, IsEmpty());
}

TEST(RecordedPipeline, BothHalvesOfAnExchangeMayBeOneEvent) {
  const std::string text = changed(
      "[", "[" + timeline_event("forward-send-backward-recv", 0, 1, 500, 2, 23, -1, -1) + ",\n");
  const std::vector<RecordedOp> ops = read(text).passes.front().devices[DeviceId{0}];
  const RecordedOp &sends = ops[ops.size() - 2], &receives = ops.back();
  EXPECT_EQ(sends.kind, OpKind::send_activation);
  EXPECT_FALSE(sends.receives);
  EXPECT_EQ(receives.kind, OpKind::send_gradient);
  EXPECT_TRUE(receives.receives);
  EXPECT_EQ(receives.end, ms(502));
}

TEST(RecordedPipeline, ATransferMayEndBeforeItBeginsByClocksThatDiffer) {
  const std::string text =
      changed("[", "[" + timeline_event("forward-send", 0, 1, 500, -9, 23, -1, -1) + ",\n");
  const Recording recording = read(text);
  EXPECT_EQ(recording.passes.front().devices[DeviceId{0}].back().start, ms(500));
  EXPECT_EQ(recording.passes.front().devices[DeviceId{0}].back().end, ms(491));
  EXPECT_THAT(recording.warnings, ElementsAre(HasSubstr("1 transfers end before they begin")));
  EXPECT_THAT(recording_error(changed(
                  "[", "[" + timeline_event("forward-send", 0, 1, 500, -101, 23, -1, -1) + ",\n")),
              HasSubstr("t.json: error: /0/dur: expected a duration of at least -100 ms"));
}

TEST(RecordedPipeline, UnknownWorkIsNamed) {
  const Recording recording =
      read(changed("[", "[" + timeline_event("checkpoint", 0, 0, 500, 2, 23, -1, -1) + ",\n" +
                            timeline_event("tp-all-gather", 0, 2, 500, 2, 23, -1, -1) + ",\n"));
  EXPECT_THAT(
      recording.warnings,
      ElementsAre("unknown ops, assumed to be outside the pipeline: checkpoint, tp-all-gather"));
}

TEST(RecordedPipeline, PassesWithoutAllStagesAreLeftOut) {
  const Recording recording =
      read(changed("[", "[" + timeline_event("forward-compute", 0, 0, 500, 2, 77, 0, 0) + ",\n"));
  EXPECT_EQ(recording.passes.size(), 4u);
  EXPECT_THAT(recording.warnings, ElementsAre(EndsWith(": 1")));
}

TEST(RecordedPipeline, ABackwardWithAWeightGradientIsHalf) {
  const Recording recording = read(
      changed("[", "[" + timeline_event("backward-wgrad-compute", 0, 0, 500, 2, 23, 0, 1) + ",\n"));
  const std::vector<RecordedOp>& ops = recording.passes.front().devices[DeviceId{0}];
  EXPECT_EQ(ops.back().kind, OpKind::backward_weight);
  for (const RecordedOp& op : ops) {
    if (makes_input_gradient(op.kind)) {
      EXPECT_EQ(op.kind, op.microbatch == 1 ? OpKind::backward_input : OpKind::backward);
    }
  }
}

TEST(RecordedPipeline, IsRefusedWhereItIsWrong) {
  const auto says = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(recording_error(text), HasSubstr(message));
  };
  const std::string text = timeline_text(two_replicas());
  says(text.substr(0, text.size() / 2), "not valid JSON: ");
  says("{}", "t.json: error: holds no events: not a trace");
  says("[]", "t.json: error: holds no forward-compute: not a timeline of a pipeline");
  says("[3]", "t.json: error: /0: expected an event, an object with \"ph\"");
  says(changed("\"dur\": 10000.000", "\"dur\": -1"), "/0/dur: expected a duration of at least 0");
  says(changed("\"dur\": 10000.000", "\"dur\": \"1\""), "/0/dur: expected a time in microseconds");
  says(changed("\"ts\": 0.000", "\"ts\": 1e300"), "/0/ts: expected a time in microseconds");
  says(changed("\"ts\": 0.000, ", ""), "/0: expected \"ts\"");
  says(changed("\"step\": 23", "\"step\": 2.5"), "/0/args/step: expected an integer");
  says(changed("\"mb_id\": 0", "\"mb_id\": -2"), "/0/args/mb_id: expected an integer from -1");
  says(changed("\"model_chunk\": 0", "\"model_chunk\": 100"), "/0/args/model_chunk: ");
  says(changed("\"forward-compute\"", "\"forward-compuet\""),
       "/0/name: no op has the name \"forward-compuet\"; did you mean \"forward-compute\"?");
  says(changed("\"tid\": 0", "\"tid\": 77"), "/0: its thread has no name such as");
  says(changed("PP rank 1", "PP rank 70000"), "/args/name: expected a stage from 0 to 9999");
}

TEST(RecordedPipeline, MustFitTheClock) {
  const auto with_long_ops = [](int count) {
    std::string events = "[";
    for (int i = 0; i < count; ++i) {
      events += timeline_event("forward-send", 0, 1, 500, 9e9, 23, -1, -1) + ",\n";
    }
    return changed("[", events);
  };
  EXPECT_THAT(recording_error(with_long_ops(500)),
              "t.json: error: a step of 516 ops of up to 9000000 s is too long to count in "
              "nanoseconds");
  EXPECT_EQ(read(with_long_ops(400)).passes.size(), 4u);
}

TEST(RecordedPipeline, AllThatIsWrongIsReported) {
  const std::string text =
      with(changed("\"dur\": 10000.000", "\"dur\": -1"), "\"dur\": 20000.000", "\"dur\": -2");
  const std::string message = recording_error(text);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1);
}

/// Each op from when the last rank has begun it until the last is done.
TEST(RecordedPipeline, RanksOfAStageAreOneDevice) {
  const Recording one = recording_of({two_stages({}, 23)});
  Recording other = one;
  for (std::vector<RecordedOp>& ops : other.passes.front().devices) {
    for (RecordedOp& op : ops) op.start += ms(1), op.end += ms(2);
  }
  for (const bool numbered : {true, false}) {
    const Recording joined = read(timeline_text({one, other}, numbered));
    EXPECT_EQ(joined.ranks, 2u);
    EXPECT_THAT(joined.warnings, IsEmpty());
    Recording expected = other;
    expected.passes.front().devices[DeviceId{0}].front().start = ms(0);  // the phase's beginning
    expect_same(joined, expected);
  }
  EXPECT_EQ(read(timeline_text(one)).ranks, 1u);
}

/// Of threads that are not as many as those with forwards nobody knows whose they are.
TEST(RecordedPipeline, ARankMayHaveMoreThreadsForTransfers) {
  const Recording one = recording_of({two_stages({}, 23)});
  std::string text = timeline_text(one);
  const std::string name = R"({"name": "thread_name", "pid": 0, "tid": 2, "ph": "M", )"
                           R"("args": {"name": "PP rank 0, TP rank 0, pp-comm"}})";
  text = with(text, "\"tid\": 1,", "\"tid\": 2,");
  const Recording recording = read(with(text, "[", "[" + name + ",\n"));
  expect_same(recording, one);
  EXPECT_EQ(recording.ranks, 1u);
}

TEST(RecordedPipeline, ARankThatLacksOpsIsLeftOutOfItsStep) {
  const Recording whole = recording_of({two_stages({}, 23), two_stages({}, 24)});
  Recording cut = whole;
  cut.passes.back().devices[DeviceId{1}].pop_back();
  for (const std::vector<Recording>& ranks : {std::vector{whole, cut}, std::vector{cut, whole}}) {
    const Recording joined = read(timeline_text(ranks));
    expect_same(joined, whole);
    EXPECT_THAT(joined.warnings,
                ElementsAre("1 times a rank is left out of a stage's step: it did not do what the "
                            "stage's other ranks did"));
  }
}

TEST(RecordedPipeline, BothEndsOfANeighboursTransfersMayBeOneEvent) {
  const std::string text = changed(
      "[", "[" + timeline_event("forward-send-forward-recv", 0, 1, 500, 2, 23, -1, -1) + ",\n" +
               timeline_event("backward-send-backward-recv", 0, 1, 600, 2, 23, -1, -1) + ",\n");
  const std::vector<RecordedOp> ops = read(text).passes.front().devices[DeviceId{0}];
  for (const std::size_t back : {1u, 2u, 3u, 4u}) {
    const RecordedOp& op = ops[ops.size() - back];
    EXPECT_EQ(op.kind, back < 3 ? OpKind::send_gradient : OpKind::send_activation);
    EXPECT_EQ(op.receives, back % 2 == 1);
  }
}

}  // namespace
}  // namespace tandem::testing
