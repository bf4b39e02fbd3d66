#include "core/notation/pytorch_csv.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/notation/notation.h"
#include "core/verify/verify.h"
#include "tests/core/error_of.h"
#include "tests/support/golden.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

Schedule make(std::string_view name, std::uint16_t devices, std::int32_t microbatches,
              std::uint16_t chunks = 1) {
  ScheduleRequest request;
  request.devices = devices;
  request.microbatches = microbatches;
  request.chunks = chunks;
  return make_schedule(find_schedule(name), request);
}

std::string csv_error(const std::string& text) {
  return error_of([&] { parse_pytorch_csv(text, "a.csv"); });
}

TEST(CsvsName, IsOfOneLine) {
  const auto read = [](const char* file) { parse_pytorch_csv("0F0,0B0\n", file); };
  EXPECT_THAT(error_of([&] { read("a\nb.csv"); }), HasSubstr("b.csv: error: "));
  EXPECT_EQ(error_of([&] { read("a b.csv"); }), "nothing was thrown") << "the control";
  EXPECT_EQ(parse_pytorch_csv("0F0,0B0\n", "in\nit/a b.csv").name, "a b") << "the control";
}

/// All but updates, which the format has no word for.
Table<DeviceId, std::vector<Op>> work_of(Schedule schedule) {
  for (std::vector<Op>& order : schedule.order)
    std::erase_if(order, [](const Op& op) { return op.kind == OpKind::update; });
  return schedule.order;
}

class CsvOfSchedule : public ::testing::TestWithParam<std::string> {};

TEST_P(CsvOfSchedule, ReadsBackTheSameWorkWithRightUpdates) {
  const ScheduleTraits& traits = find_schedule(GetParam());
  const std::uint16_t chunks = traits.replicas_per_device == 0 ? 2 : 1;
  const Schedule schedule =
      make(GetParam(), traits.only_devices == 0 ? 4 : traits.only_devices, 8, chunks);
  const Schedule read = parse_pytorch_csv(print_pytorch_csv(schedule), "folder/mine.csv");
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.microbatches, 8);
  EXPECT_EQ(read.placement, schedule.placement);
  EXPECT_EQ(work_of(read), work_of(schedule));
  EXPECT_TRUE(verify(lower(read)).empty());
}

std::vector<std::string> schedules_with_flush() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) {
    if (row.name.starts_with("2bp") || row.evicts) continue;  // no words for that
    if (row.weights == WeightSemantics::vanilla && row.replicas_per_stage == 1)
      names.emplace_back(row.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Flush, CsvOfSchedule, ::testing::ValuesIn(schedules_with_flush()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// The orders of ScheduleDualPipeV, ScheduleInterleavedZeroBubble and ScheduleInterleaved1F1B of
/// torch/distributed/pipelining/schedules.py (2.9), idle cells left out, computed apart from this
/// code. In the file: name, devices, microbatches, chunks; a row a rank.
TEST(PytorchCsv, OrdersArePytorchsOwnOpForOp) {
  std::string text;
  const auto add = [&](std::string_view name, std::uint16_t devices, std::int32_t microbatches,
                       std::uint16_t chunks = 1) {
    text += fmt::format("{} {} {} {}\n{}\n", name, devices, microbatches, chunks,
                        print_pytorch_csv(make(name, devices, microbatches, chunks)));
  };
  add("dualpipev", 2, 4);
  add("dualpipev", 3, 8);
  add("dualpipev", 4, 10);
  add("interleaved-zb", 2, 4, 2);
  add("interleaved-zb", 3, 8, 2);
  add("interleaved-zb", 4, 8, 3);
  add("interleaved-zb", 4, 3, 2);
  add("interleaved", 3, 8, 2);
  add("interleaved", 4, 2, 3);
  expect_golden("pytorch_orders.txt", text);
}

TEST(PytorchCsv, OldAndNewDialectSayTheSame) {
  const std::string both = "0F0,0F1,0{0}0,0{1}1,0W1\n1F0,1{0}0,1F1,1{1}1,1W1\n";
  const Schedule old = parse_pytorch_csv(fmt::format(fmt::runtime(both), "BW", "B"), "a.csv");
  EXPECT_EQ(old, parse_pytorch_csv(fmt::format(fmt::runtime(both), "B", "I"), "a.csv"));
  EXPECT_EQ(print_pytorch_csv(old), "0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1I1,1W1\n");
  // Without a BW a B stands for the half where a W completes it.
  EXPECT_EQ(print_pytorch_csv(parse_pytorch_csv("0F0,0F1,0B0,0B1,0W1\n", "a.csv")),
            "0F0,0F1,0B0,0I1,0W1\n");
}

TEST(PytorchCsv, IdleCellsAndWhatMovesDataAreLeftOut) {
  EXPECT_EQ(print_pytorch_csv(parse_pytorch_csv(
                "0UNSHARD,0F0, ,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,\r\n,1RECV_F0,1F0,1B0\r\n\n",
                "a.csv")),
            "0F0,0B0\n1F0,1B0\n");
}

TEST(PytorchCsv, PairsAreGroupsThatFollowingPairsDoNotJoin) {
  const std::string text = "0F0,0F1,(0F2;0B0)OVERLAP_F_B,(0F3;0B1)OVERLAP_F_B,0B2,0B3\n";
  const Schedule schedule = parse_pytorch_csv(text, "a.csv");
  const std::vector<Op>& order = schedule.order[DeviceId{0}];
  EXPECT_EQ(order[2].group, 1);
  EXPECT_EQ(order[3].group, 1);
  EXPECT_EQ(order[4].group, 2);
  EXPECT_EQ(order[6].group, 0);
  EXPECT_EQ(print_pytorch_csv(schedule), text);
}

TEST(PytorchCsv, StagesMayLieAnywhere) {
  const Schedule schedule =
      parse_pytorch_csv("0F0,1F0,4F0,4B0,1B0,0B0\n2F0,3F0,3B0,2B0\n", "unbalanced.csv");
  EXPECT_EQ(schedule.placement.replicas(), 5);
  EXPECT_EQ(schedule.placement.device[ReplicaId{4}], DeviceId{0});
  EXPECT_TRUE(verify(lower(schedule)).empty());
}

TEST(PytorchCsv, DiagnosticsPointAtTheCell) {
  EXPECT_EQ(csv_error("0F0,0X0,0B0\n"),
            "a.csv:1:5: error: \"0X0\" is no action\n"
            "0F0,0X0,0B0\n"
            "    ^~~ a stage, F, B, I or W, and a microbatch, such as 0F7");
  EXPECT_THAT(csv_error("0F0,0B0\n0F1,0B1\n"),
              HasSubstr("a.csv:2:1: error: stage 0 is on rank 0 already: a stage has one rank"));
  EXPECT_THAT(csv_error("0F0,0B0,0F0\n"),
              HasSubstr("a.csv:1:9: error: the forward of microbatch 0 on stage 0 is given twice"));
  EXPECT_THAT(csv_error("0F0,0B0\n2F0,2B0\n"),
              HasSubstr("a.csv:2:1: error: there is a stage 2, and no stage 1"));
  EXPECT_THAT(csv_error("0F0,0F1,0B0\n"), HasSubstr("stage 0 lacks the backward of microbatch 1"));
  EXPECT_THAT(csv_error("0F0,0I0\n"), HasSubstr("stage 0 lacks the weight gradient (W)"));
  EXPECT_THAT(csv_error("0F0,0F1,0BW0,0B1\n"),
              HasSubstr("stage 0 lacks the weight gradient (W) of microbatch 1"));
  EXPECT_THAT(csv_error("0F0,0B0,0I0,0W0\n"), HasSubstr("has a whole backward on stage 0 already"));
  EXPECT_THAT(csv_error("0F0,0BW0,0W0\n"), HasSubstr("has a whole backward on stage 0 already"));
  EXPECT_THAT(csv_error("0F0,0F1,(0F1;0F0)OVERLAP_F_B\n"), HasSubstr("a pair is a forward and a"));
  EXPECT_THAT(csv_error("(0F0;0B0)OVERLAP\n"), HasSubstr("is no pair"));
  EXPECT_THAT(csv_error("0F99999\n"), HasSubstr("a microbatch"));
  EXPECT_THAT(csv_error("\n\n"), HasSubstr("no actions"));
  EXPECT_THAT(csv_error("forward 0\n"),
              HasSubstr("the line `# NAME devices N microbatches M` first"));
  EXPECT_THAT(csv_error("0F0,0B0\n\n1F0,1B0\n"), HasSubstr("rank 1 has no action"));
}

TEST(PytorchCsv, OurNotationIsNotTakenForItWhateverItLacks) {
  for (const std::string_view ours : {"# s devices 1\n0 | f0 b0 U\n", "0 | f0 b0 U\n", "",
                                      "\xef\xbb\xbf# s devices 1\n0 | f0 b0 U\n"}) {
    EXPECT_FALSE(is_pytorch_csv(ours)) << ours;
  }
  EXPECT_TRUE(is_pytorch_csv("0F0,0B0\n"));
  EXPECT_TRUE(is_pytorch_csv("(0F7;7B3)OVERLAP_F_B\n"));
}

TEST(PytorchCsv, AnOrderThatDeadlocksIsReadAndNotLowered) {
  const Schedule schedule = parse_pytorch_csv("0F0,0B0\n1B0,1F0\n", "a.csv");
  EXPECT_THROW(lower(schedule), InfeasibleError);
}

TEST(PytorchCsv, RefusesWhatItHasNoWordsFor) {
  for (const std::string_view name : {"2bw", "pipedream", "chimera", "2bp-gpipe"}) {
    EXPECT_THAT(error_of([&] { print_pytorch_csv(make(name, 2, 2)); }),
                HasSubstr("no words for weight versions"));
  }
  for (const char* order : {"f0 f1 b0/1 b1/1 U", "f0/1 f1 b0 b1 U", "f0 f1/1 b0/1 b1/1 U"}) {
    const Schedule units =
        parse_schedule(fmt::format("# units  devices 1  microbatches 2\n0 | {}\n", order));
    EXPECT_THAT(error_of([&] { print_pytorch_csv(units); }), HasSubstr("or units but pairs"));
  }
  const Schedule pair =
      parse_schedule("# pair  devices 1  microbatches 2\n0 | f0 f1/1 b0/1 b1 U\n");
  EXPECT_EQ(print_pytorch_csv(pair), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
}

}  // namespace
}  // namespace tandem::testing
