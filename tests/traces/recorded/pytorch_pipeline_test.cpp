// Traces of PyTorch written of recordings made by hand, read back; and what is wrong with others.

#include "traces/recorded/pytorch_pipeline.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/pytorch_trace.h"
#include "tests/support/recordings.h"
#include "tests/traces/expect_same.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DeviceId kFirst{0}, kSecond{1};

Recording two_steps() {
  return recording_of({two_stages({}, 0), two_stages({.forward = {ms(5), ms(9)}}, 1, 0, ms(200))});
}

Recording read(const std::vector<std::string>& texts) {
  std::vector<TraceSource> traces;
  for (const std::string& text : texts) {
    traces.emplace_back(text, fmt::format("{}.json", traces.size()));
  }
  return read_pytorch_pipeline(traces);
}

std::string error(const std::vector<std::string>& texts) {
  return error_of([&] { read(texts); });
}

/// Of a rank that did these actions one after the other, a millisecond each.
std::string rank_of(const std::vector<std::string>& actions) {
  std::vector<std::string> events;
  for (const std::string& action : actions) {
    events.push_back(pytorch_event("gpu_user_annotation", "PP:" + action, 7,
                                   ms(static_cast<std::int64_t>(events.size())), ms(1)));
  }
  return pytorch_document(events);
}

TEST(PytorchPipeline, IsReadAsItWasDone) {
  const Recording done = two_steps();
  const Recording recording = read({pytorch_text(done, kFirst), pytorch_text(done, kSecond)});
  expect_same(recording, done);
  EXPECT_TRUE(recording.own_streams);
  EXPECT_THAT(recording.warnings, IsEmpty());
  ASSERT_EQ(recording.whole_steps.size(), 1u);
  EXPECT_EQ(recording.whole_steps.at(0), ms(200));
}

/// Both ends of a transfer end at once, and the one that came later did not wait.
TEST(PytorchPipeline, ClocksAreComparedByTransfersAndWaitingIsNone) {
  const Recording done = two_steps();
  const PytorchRank second{.clock_ahead = std::chrono::hours(30), .sends_wait = ms(4)};
  expect_same(read({pytorch_text(done, kFirst, {.clock_ahead = {}, .sends_wait = ms(3)}),
                    pytorch_text(done, kSecond, second)}),
              done);
}

TEST(PytorchPipeline, RanksMayComeInAnyOrder) {
  const Recording done = two_steps();
  Recording recording = read({pytorch_text(done, kSecond), pytorch_text(done, kFirst)});
  const Duration shift = recording.passes.front().devices[kFirst].front().start;
  EXPECT_EQ(shift, -ms(10));  // times count from the first that is read
  for (RecordedPass& pass : recording.passes) {
    for (std::vector<RecordedOp>& ops : pass.devices) {
      for (RecordedOp& op : ops) op.start -= shift, op.end -= shift;
    }
  }
  expect_same(recording, done);
}

TEST(PytorchPipeline, TimesMayCountFrom1970) {
  const Recording done = two_steps();
  const Duration since = std::chrono::hours(24 * 365 * 57);
  const Recording recording =
      read({pytorch_text(done, kFirst, {.clock_ahead = since, .sends_wait = {}}),
            pytorch_text(done, kSecond, {.clock_ahead = since, .sends_wait = {}})});
  EXPECT_EQ(recording.passes.size(), 2u);
  EXPECT_THAT(recording.warnings, IsEmpty());
}

TEST(PytorchPipeline, StagesMayGoRoundTheRanks) {
  const Recording recording =
      read({rank_of({"0F0", "2F0", "2B0", "0B0"}), rank_of({"1F0", "3F0", "3B0", "1B0"})});
  EXPECT_EQ(recording.devices, 2);
  EXPECT_EQ(recording.chunks, 2);
  EXPECT_EQ(recording.passes.front().devices[kSecond][1].chunk, 1);
  EXPECT_THAT(recording.warnings,
              ElementsAre("1.json: no transfers to compare its clock by with that of 0.json"));
}

TEST(PytorchPipeline, StagesMayGoDownTheRanksAndBackUp) {
  const Recording recording =
      read({rank_of({"0F0", "3F0", "3B0", "0B0"}), rank_of({"1F0", "2F0", "2B0", "1B0"})});
  EXPECT_TRUE(recording.wave);
  EXPECT_EQ(recording.chunks, 2);
  EXPECT_EQ(recording.passes.front().devices[kFirst][1].chunk, 1);
  EXPECT_FALSE(
      read({rank_of({"0F0", "2F0", "2B0", "0B0"}), rank_of({"1F0", "3F0", "3B0", "1B0"})}).wave);
}

TEST(PytorchPipeline, BackwardsMayBeInTwoHalves) {
  const std::vector<RecordedOp> ops =
      read({rank_of({"0F0", "0F1", "0I0", "0B1", "0W0"})}).passes.front().devices[kFirst];
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(ops[2].kind, OpKind::backward_input);
  EXPECT_EQ(ops[3].kind, OpKind::backward);
  EXPECT_EQ(ops[4].kind, OpKind::backward_weight);
  EXPECT_EQ(ops[4].microbatch, 0);
}

TEST(PytorchPipeline, IsRefusedWhereItIsWrong) {
  const auto says = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(error({text}), HasSubstr(message));
  };
  const std::string text = pytorch_text(two_steps(), kFirst);
  says(text.substr(0, text.size() / 2), "not valid JSON: ");
  says("", "not valid JSON: ");
  says("{}", "0.json: error: holds no GPU annotations such as PP:0F3");
  says("[3]", "0.json: error: /0: expected an event, an object");
  says(pytorch_document({pytorch_event("user_annotation", "PP:0F0", 1, ms(0), ms(1))}),
       "0.json: error: its actions are annotated on the host only");
  says(rank_of({"0SEND_F0"}), "holds no GPU annotations such as PP:0F3");
  says(rank_of({"(0F1;3B2)OVERLAP_F_B"}),
       "/traceEvents/0/name: a forward and a backward as one action: its annotation does not say "
       "how long each took");
  for (const char* action : {"0F", "F0", "0X0", "0F0x", "-1F0", "0F70000", "", "0"}) {
    says(rank_of({action}),
         fmt::format("/traceEvents/0/name: \"PP:{}\" is no action such", action));
  }
  says(pytorch_document({pytorch_event("gpu_user_annotation", "PP:0F0", 7, ms(0), -ms(1))}),
       "/traceEvents/0/dur: expected a duration of at least 0");
  says(rank_of({"0F0", "0F0", "0B0"}),
       "/traceEvents/2: done once less often than what precedes it");
}

TEST(PytorchPipeline, RanksMustBeThoseOfOnePipeline) {
  const std::string first = rank_of({"0F0", "0B0"});
  EXPECT_THAT(error({first, first}), HasSubstr("1.json: error: has stage 0, as 0.json has"));
  EXPECT_THAT(error({first, rank_of({"5F0", "5B0"})}),
              HasSubstr("1.json: error: its first stage is 5: expected the traces of the 2 ranks"));
  for (const char* second : {"2", "5"}) {
    const std::string stages =
        fmt::format("has the stages 1, {}: only stages that go round", second);
    EXPECT_THAT(error({rank_of({"0F0", "3F0"}), rank_of({"1F0", fmt::format("{}F0", second)}),
                       rank_of({"2F0", "5F0"})}),
                HasSubstr("1.json: error: " + stages));
  }
  const std::string sends =
      pytorch_document({pytorch_event("gpu_user_annotation", "PP:0F0", 7, ms(0), ms(1)),
                        pytorch_event("gpu_user_annotation", "PP:1SEND_F0", 20, ms(1), ms(1))});
  EXPECT_THAT(error({sends, rank_of({"1F0", "1B0"})}),
              HasSubstr("0.json: error: sends or receives for stage 1, which it does not compute"));
}

}  // namespace
}  // namespace tandem::testing
