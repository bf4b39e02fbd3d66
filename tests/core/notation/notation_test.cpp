#include "core/notation/notation.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/ascii.h"
#include "core/schedule/schedule.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::StartsWith;

Schedule round_trip(const Schedule& schedule) {
  return parse_schedule(print_schedule(schedule), "printed");
}

std::string notation_error(const std::string& text) {
  return error_of([&] { parse_schedule(text, "s"); });
}

TEST(Notation, IsShortWhereTheScheduleIsPlain) {
  EXPECT_EQ(print_schedule(make_schedule(find_schedule("1f1b"), request_for(2, 3))),
            "# 1f1b  devices 2  microbatches 3\n"
            "0 | f0 f1 b0 f2 b1 b2 U\n"
            "1 | f0 b0 f1 b1 f2 b2 U\n");
  EXPECT_EQ(print_schedule(make_schedule(find_schedule("2bw"), request_for(2, 2))),
            "# 2bw  devices 2  microbatches 2  staleness 1\n"
            "0 | f1 b0 f2 b1 U\n"
            "1 | f0 b0 f1 b1 U\n");
}

TEST(Notation, SaysWhereStagesAre) {
  EXPECT_EQ(print_schedule(make_schedule(find_schedule("1f1b-v"), request_for(2, 1))),
            "# 1f1b-v  devices 2  microbatches 1\n"
            "# stages 0 1 1 0\n"
            "0 | 0f0 3f0 3b0 0b0 0U 3U\n"
            "1 | 1f0 2f0 2b0 1b0 1U 2U\n");
  ScheduleRequest request = request_for(4, 2);
  request.replicas = {2, 1, 1};
  EXPECT_EQ(print_schedule(make_schedule(find_schedule("pipedream"), request)),
            "# pipedream  devices 4  microbatches 2\n"
            "# replicas 0 0 1 2\n"
            "# edges 0>2 1>2 2>3\n"
            "0 ~2 | f4 b0 R U\n"
            "1 ~2 | f5 b1 R U\n"
            "2 ~1 | f1 b0 U0+1 f2 b1 U+1\n"
            "3 | f0 b0 U0+1 f1 b1 U+1\n");
}

TEST(Notation, ReadsWhatPeopleWrite) {
  const Schedule schedule = parse_schedule(
      "\n"
      "#mine devices 2\tmicrobatches 4\r\n"
      "# width 3   staleness 1\n"
      "# tied 0+1\n"
      "  1 | 1f7 1i7~0 w7+2/3 T R U3+1~5   \n"
      "\n"
      "0 ~2 |r0",
      "s");
  EXPECT_EQ(schedule.name, "mine");
  EXPECT_EQ(schedule.microbatches, 4);
  EXPECT_EQ(schedule.width, 3);
  Placement placement = linear_placement(2);
  placement.tied = {{StageId{0}, StageId{1}}};
  EXPECT_EQ(schedule.placement, placement);
  constexpr ReplicaId kFirst{0}, kSecond{1};
  EXPECT_EQ(schedule.order[DeviceId{0}],
            std::vector<Op>({{OpKind::recompute, 0, kFirst, 0, 1, 2}}));
  EXPECT_EQ(schedule.order[DeviceId{1}],
            std::vector<Op>({{OpKind::forward, 0, kSecond, 7, 1, 1},
                             {OpKind::backward_input, 0, kSecond, 7, 1, 0},
                             {OpKind::backward_weight, 3, kSecond, 7, 2, 0},
                             {OpKind::reduce_tied, 0, kSecond, 3, 4, 0},
                             {OpKind::reduce_gradient, 0, kSecond, 3, 4, 0},
                             {OpKind::update, 0, kSecond, 3, 1, 5}}));
}

TEST(Notation, ReadsThePartsOfOlderFilesAsReplicas) {
  const std::string header = "# s  devices 2  microbatches 1\n# stages 0 1 1 0\n",
                    rest =
                        "# edges 0>1 2>3\n"
                        "0 | 0f0 3f0 3b0 0b0 0U 3U\n"
                        "1 | 1f0 2f0 2b0 1b0 1U 2U\n",
                    today = header + "# replicas 0 1 0 1\n" + rest;
  const Schedule schedule = parse_schedule(today, "s");
  EXPECT_EQ(schedule.placement.stage[ReplicaId{2}], StageId{0});
  EXPECT_EQ(parse_schedule(header + "# parts 0 1 0 1\n" + rest, "s"), schedule);
  EXPECT_EQ(print_schedule(schedule), today);
}

TEST(Notation, BringsBackEverySchedule) {
  for (const ScheduleTraits& row : schedules()) {
    for (const int count : {1, 2, 3, 4, 8, 12}) {
      const auto devices = static_cast<std::uint16_t>(count);
      for (const std::int32_t microbatches : {1, 2, 8, 12}) {
        for (const bool more : {false, true}) {
          ScheduleRequest request = request_for(devices, microbatches);
          if (row.replicas_per_device == 0) request.chunks = 2;
          if (row.name == "pipedream" && devices > 1 && microbatches % 2 == 0) {
            request.replicas.assign(devices - 1u, 1);
            request.replicas[0] = 2;
          }
          if (more) {
            request.recompute = Recompute::stage;
            request.tied_embeddings = true;
            request.width = 3;
          }
          if (reason_against(row, request)) continue;
          const Schedule schedule = make_schedule(row, request);
          EXPECT_EQ(round_trip(schedule), schedule) << print_schedule(schedule);
        }
      }
    }
  }
}

TEST(Notation, SaysWhatReadsTheNewestWeightsAndWhatCorrectsOrPredictsThem) {
  const std::string text =
      "# mine  devices 2  microbatches 2  reads newest\n# readings 0:0:0.5:0.25 2:1.5:0:0:shared\n"
      "0 | f1~1 b0 f2 b1 U\n1 | f0 b0 f1 b1 U\n";
  const Schedule schedule = parse_schedule(text, "s");
  EXPECT_TRUE(schedule.reads_newest);
  EXPECT_EQ(schedule.readings[StageId{0}], (Reading{.delay = 0.5, .kept = 0.25}));
  EXPECT_EQ(schedule.readings[StageId{1}],
            (Reading{.forward_horizon = 2, .backward_horizon = 1.5, .shares_prediction = true}));
  EXPECT_EQ(round_trip(schedule), schedule);
  const auto diagnostic = [](const std::string& header) {
    return error_of([&] {
      parse_schedule("# mine  devices 1  microbatches 1" + header + "0 | f0 b0 U\n", "s");
    });
  };
  EXPECT_EQ(diagnostic("  reads newest\n# readings 0:0:0:0\n"), "nothing was thrown");
  EXPECT_THAT(diagnostic("  reads oldest\n"), HasSubstr("\"reads\" is followed by \"newest\""));
  EXPECT_THAT(diagnostic("  reads newest\n# readings 0:0:0:0 0:0:0:0\n"),
              HasSubstr("2 readings for 1 stages"));
  EXPECT_THAT(diagnostic("\n# readings 0:0:1:0\n"),
              HasSubstr("a backward does not read the newest"));
  EXPECT_EQ(diagnostic("\n# readings 1:1:0:0\n"), "nothing was thrown");
  for (const char* wrong : {"1", "1:2:3", "1:2:3:0:5", ":::"}) {
    EXPECT_NE(diagnostic(fmt::format("  reads newest\n# readings {}\n", wrong)),
              "nothing was thrown");
  }
  EXPECT_THAT(diagnostic("  reads newest\n# readings 1\n"),
              HasSubstr("expected what a stage reads, found \"1\""));
  EXPECT_THAT(diagnostic("  reads newest\n# readings 0:0:1:2\n"),
              HasSubstr("what is kept must be a number from 0 to 1, found \"2\""));
  EXPECT_THAT(diagnostic("  reads newest\n# readings nan:0:0:0\n"),
              HasSubstr("a number of updates must be a number from 0 to 65535, found \"nan\""));
  for (const char* impossible : {"1:0:1:0.5", "0:1:0:0", "0:0:0:0:shared"}) {
    EXPECT_THAT(diagnostic(fmt::format("  reads newest\n# readings {}\n", impossible)),
                HasSubstr("a stage predicts weights or corrects those of its backwards, not both"));
  }
}

/// Nothing that would run: any placement and any ops within the bounds.
Schedule random_schedule(std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Schedule schedule;
  for (std::size_t n = below(6); n > 0; --n) {
    const auto byte = static_cast<char>(1 + below(255));
    schedule.name += end_of_line({&byte, 1}) == std::string_view::npos ? byte : ' ';
  }
  schedule.microbatches = static_cast<std::int32_t>(1 + below(below(4) == 0 ? 1 << 20 : 9));
  schedule.width = static_cast<std::uint16_t>(1 + below(3));
  Placement& placement = schedule.placement;
  placement.devices = static_cast<std::uint16_t>(1 + below(12));
  const std::size_t replicas = below(2) == 0 ? placement.devices : 1 + below(20);
  const bool plain = replicas == placement.devices && below(2) == 0;
  const std::size_t stages = plain ? replicas : 1 + below(replicas);
  for (std::size_t s = 0; s < replicas; ++s) {
    placement.device.push_back(id_at<DeviceId>(plain ? s : below(placement.devices)));
    placement.stage.push_back(id_at<StageId>(s < stages ? s : below(stages)));
    for (std::size_t to = s + 1; to < replicas; ++to) {
      if (below(3) == 0) placement.edges.push_back({id_at<ReplicaId>(s), id_at<ReplicaId>(to)});
    }
  }
  if (stages > 3) placement.tied = {{StageId{0}, StageId{2}}, {StageId{1}, StageId{3}}};
  schedule.order.resize(placement.devices);
  const bool one_staleness = below(2) == 0;
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<ReplicaId> here = placement.replicas_on(device);
    for (std::size_t n = here.empty() ? 0 : below(8); n > 0; --n) {
      const OpTraits& row = kOpTraits[below(kOpKinds)];
      if (row.notation.empty()) continue;
      Op op{.kind = row.kind, .replica = here[below(here.size())]};
      op.microbatch = static_cast<std::int32_t>(below(1 << 24));
      const std::int32_t most = std::min(op.microbatch % schedule.microbatches + 1, 65535);
      op.span = static_cast<std::uint16_t>(1 + below(static_cast<std::size_t>(most)));
      op.staleness = one_staleness ? 2 : static_cast<std::uint16_t>(below(65536));
      op.group = static_cast<std::uint8_t>(below(2) * below(256));
      schedule.order[device].push_back(op);
    }
  }
  return schedule;
}

TEST(Notation, BringsBackWhateverTheTypesHold) {
  const std::uint64_t seed =
      static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Schedule schedule = random_schedule(random);
    ASSERT_EQ(round_trip(schedule), schedule) << print_schedule(schedule);
  }
}

/// As the parser lists them: "letters: f r …".
std::string all_letters() {
  std::string text = "letters:";
  for (const OpTraits& row : kOpTraits) {
    if (!row.notation.empty()) text += fmt::format(" {}", row.notation);
  }
  return text;
}

TEST(Notation, PointsAtEveryBadOp) {
  const std::string error = notation_error(
      "# s devices 2 microbatches 4\n"
      "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
      "1 | f0~70000 f0/0 f0! f\n");
  EXPECT_EQ(with(error, all_letters(), "LETTERS"),
            "s:2:8: error: \"x1\" is no op\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "       ^~ LETTERS\n"
            "s:2:11: error: \"b\" lacks the offset of its microbatch\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "          ^\n"
            "s:2:13: error: a span of 4 that ends with microbatch 5 crosses a batch boundary\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "            ^~\n"
            "s:2:16: error: stage 1 is not on device 0\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "               ^\n"
            "s:2:21: error: an offset must be 0 to 16777215, found 99999999\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "                    ^~~~~~~~\n"
            "s:2:33: error: expected a span\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "                                ^\n"
            "s:2:34: error: a span of 9 that ends with microbatch 3 crosses a batch boundary\n"
            "0 | f0 x1 b U5 1f0 f99999999 b0+ U+9\n"
            "                                 ^~~\n"
            "s:3:8: error: staleness must be 0 to 65535, found 70000\n"
            "1 | f0~70000 f0/0 f0! f\n"
            "       ^~~~~\n"
            "s:3:17: error: a group must be 1 to 255, found 0\n"
            "1 | f0~70000 f0/0 f0! f\n"
            "                ^\n"
            "s:3:21: error: unexpected \"!\" in \"f0!\"\n"
            "1 | f0~70000 f0/0 f0! f\n"
            "                    ^\n"
            "s:3:23: error: \"f\" lacks the offset of its microbatch\n"
            "1 | f0~70000 f0/0 f0! f\n"
            "                      ^");
}

TEST(Notation, PointsAtBadHeaders) {
  EXPECT_EQ(notation_error(""), "s: error: no header line `# NAME devices N microbatches M`");
  EXPECT_EQ(notation_error("0 | f0"), "s: error: no header line `# NAME devices N microbatches M`");
  EXPECT_EQ(notation_error("# s devices 2"), "s: error: the header lacks \"microbatches\"");
  EXPECT_EQ(notation_error("# s devices 5000 micro 2"),
            "s:1:13: error: devices must be 1 to 4096, found 5000\n"
            "# s devices 5000 micro 2\n"
            "            ^~~~\n"
            "s: error: the header lacks \"microbatches\"");
  EXPECT_EQ(notation_error("# s devices 2 microbatch 2\n"),
            "s:1:15: error: unknown field \"microbatch\"; did you mean \"microbatches\"?\n"
            "# s devices 2 microbatch 2\n"
            "              ^~~~~~~~~~\n"
            "s: error: the header lacks \"microbatches\"");
  EXPECT_EQ(notation_error("# s devices 2 microbatches 2\n# devices 2"),
            "s:2:3: error: \"devices\" is given twice\n"
            "# devices 2\n"
            "  ^~~~~~~");
  EXPECT_EQ(notation_error("# \"s devices 2"),
            "s:1:3: error: a name without its closing quote\n"
            "# \"s devices 2\n"
            "  ^~~~~~~~~~~~\n"
            "s: error: the header lacks \"devices\"\n"
            "s: error: the header lacks \"microbatches\"");
}

TEST(Notation, PointsAtBytesThatNoNameHas) {
  const std::string nul(1, '\0'), rest = " devices 1 microbatches 1\n0 | f0 b0 U\n";
  EXPECT_THAT(notation_error("# \"a\\x0a\"" + rest), StartsWith("s:1:5: error: "));
  EXPECT_THAT(notation_error("# \"a\\x00\"" + rest), StartsWith("s:1:5: error: "));
  EXPECT_THAT(notation_error("# \"a\rb\"" + rest), StartsWith("s:1:5: error: "));
  EXPECT_THAT(notation_error("# a" + nul + "b" + rest), StartsWith("s:1:4: error: "));
  EXPECT_THAT(notation_error("# a" + rest + nul), StartsWith("s:3:1: error: "));
  EXPECT_EQ(notation_error("# \"a\\x09\"" + rest), "nothing was thrown") << "the control";
}

TEST(Notation, PointsAtBadPlacements) {
  const std::string header = "# s devices 2 microbatches 2\n";
  EXPECT_EQ(notation_error(header + "# stages 0 2"),
            "s:2:12: error: a device must be 0 to 1, found 2\n"
            "# stages 0 2\n"
            "           ^");
  EXPECT_EQ(notation_error(header + "# replicas 0"),
            "s:2:12: error: \"replicas\": expected the stages of 2 replicas, found 1\n"
            "# replicas 0\n"
            "           ^");
  EXPECT_EQ(notation_error(header + "# parts 0"),
            "s:2:9: error: \"parts\": expected the stages of 2 replicas, found 1\n"
            "# parts 0\n"
            "        ^");
  EXPECT_EQ(notation_error(header + "# replicas 0 2"),
            "s:2:14: error: stage 1 has no replica\n"
            "# replicas 0 2\n"
            "             ^");
  EXPECT_EQ(notation_error(header + "# replicas 0 0\n# parts 0 0"),
            "s:3:3: error: \"parts\" is given twice\n"
            "# parts 0 0\n"
            "  ^~~~~");
  EXPECT_EQ(notation_error(header + "# edges 0>1 0>1"),
            "s:2:13: error: edges must ascend\n"
            "# edges 0>1 0>1\n"
            "            ^~~");
  EXPECT_EQ(notation_error(header + "# edges 0>1 1>0"),
            "s:2:13: error: the edges form a cycle\n"
            "# edges 0>1 1>0\n"
            "            ^~~");
  EXPECT_EQ(notation_error(header + "# edges 0-1"),
            "s:2:9: error: expected an edge, found \"0-1\"\n"
            "# edges 0-1\n"
            "        ^~~ such as 0>1");
  EXPECT_EQ(notation_error(header + "# edges 0>7"),
            "s:2:9: error: stage 7 does not exist: there are 2\n"
            "# edges 0>7\n"
            "        ^~~");
  EXPECT_EQ(notation_error(header + "# tied 0+1 1+5 1 1+0 a"),
            "s:2:16: error: a stage is tied to another\n"
            "# tied 0+1 1+5 1 1+0 a\n"
            "               ^ such as 0+3");
  EXPECT_EQ(notation_error(header + "# tied 0+1 1+5"),
            "s:2:12: error: stage 1 is tied already\n"
            "# tied 0+1 1+5\n"
            "           ^~~\n"
            "s:2:12: error: stage 5 does not exist\n"
            "# tied 0+1 1+5\n"
            "           ^~~");
}

TEST(Notation, PointsAtBadDevices) {
  const std::string header = "# s devices 2 microbatches 2\n";
  EXPECT_EQ(notation_error(header + "0 | f0\n"), "s: error: device 1 has no line");
  EXPECT_EQ(notation_error(header + "0 |\n1 |\n1 |\n# x\n2 |\nq"),
            "s:4:1: error: device 1 has a line already\n"
            "1 |\n"
            "^\n"
            "s:5:1: error: header lines come before the devices\n"
            "# x\n"
            "^\n"
            "s:6:1: error: a device must be 0 to 1, found 2\n"
            "2 |\n"
            "^\n"
            "s:7:1: error: expected a device, found \"q\"\n"
            "q\n"
            "^");
  EXPECT_EQ(notation_error(header + "0 f0\n1 |"),
            "s:2:3: error: expected `|` after the device\n"
            "0 f0\n"
            "  ^~\n"
            "s: error: device 0 has no line");
  EXPECT_EQ(notation_error(header + "# stages 0 0\n0 | f0\n1 | f0"),
            "s:3:5: error: \"f0\" lacks its stage: device 0 has 2 of them\n"
            "0 | f0\n"
            "    ^~\n"
            "s:4:5: error: \"f0\" lacks its stage: device 1 has 0 of them\n"
            "1 | f0\n"
            "    ^~");
}

TEST(Notation, GivesUpAfterAHundredDiagnostics) {
  std::string text = "# s devices 1 microbatches 2\n0 |";
  for (int i = 0; i < 5000; ++i) text += " x";
  try {
    parse_schedule(text);
    FAIL();
  } catch (const InputError& thrown) {
    EXPECT_EQ(thrown.diagnostics().size(), 100u);
  }
}

/// A copy of a line with each diagnostic about it: of a megabyte of one line that would be too
/// much.
TEST(Notation, DoesNotShowEndlessLines) {
  for (const int words : {4'000, 40'000}) {
    std::string text = "# s devices 1 microbatches 2\n0 |";
    for (int i = 0; i < words; ++i) text += " x";
    try {
      parse_schedule(text);
      FAIL();
    } catch (const InputError& thrown) {
      for (const Diagnostic& diagnostic : thrown.diagnostics()) {
        EXPECT_EQ(diagnostic.place.source_line.empty(), words == 40'000);
        EXPECT_GT(diagnostic.place.column, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
