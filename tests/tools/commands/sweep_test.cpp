// tandem sweep: which configurations there are, what each of them says, and how they are ranked.

#include "tests/tools/sweep.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

class Sweep : public SweepCommand {};

TEST_F(Sweep, EveryRowIsWhatSimulateSays) {
  write("model.json",
        R"({"version": 1, "name": "mine", "blocks": 4, "width": 64, "heads": 2, "sequence": 32})");
  write_plan();
  const Strings sweeps{
      kPlain + " --recompute none,full --lanes shared,ideal --batches 3",
      "sweep --model model.json --cluster p3.16xlarge --schedule 1f1b,2bw,interleaved --depth 2,4 "
      "--microbatch-size 1,2 --tensor 1,2 --global-batch 32",
      "sweep --model gpt2 --cluster 2xp3.16xlarge,DGX-H100 --schedule 2bw --depth 4 "
      "--contention=no,yes",
      "sweep plan.json --link-rate 1Mb/s,1Gb/s --memory 1MiB,1KiB",
      "sweep --schedule search --devices 2,3 --microbatches 3 --forward 1ms --backward 2ms "
      "--activation-cap 2,3 --orders 50"};
  for (const std::string& sweep : sweeps) {
    const std::vector<Json> rows = rows_of(sweep);
    EXPECT_GE(rows.size(), 4u) << sweep;
    for (const Json& row : rows) expect_as_simulated(row);
  }
}

TEST_F(Sweep, TheLastOptionChangesFastest) {
  const std::vector<Json> rows = rows_of(
      "sweep --microbatches 4,8 --devices 2,4 --schedule 1f1b --forward 1ms --backward 2ms");
  ASSERT_EQ(rows.size(), 4u);
  Strings seen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["index"], i);
    EXPECT_EQ(rows[i]["configurations"], 4);
    EXPECT_EQ(rows[i]["sweep"], rows[0]["sweep"]);
    seen.push_back(rows[i]["axes"].dump());
  }
  EXPECT_EQ(
      seen,
      (Strings{R"({"microbatches":"4","devices":"2"})", R"({"microbatches":"4","devices":"4"})",
               R"({"microbatches":"8","devices":"2"})", R"({"microbatches":"8","devices":"4"})"}));
}

TEST_F(Sweep, RangesAndListsOfLists) {
  const auto values = [&](const std::string& option, const std::string& text) {
    Strings found;
    for (const Json& row : lines_of(tandem({"sweep", "--schedule", "search", "--devices", "2",
                                            "--microbatches", "2", "--orders", "1", "--forward",
                                            "1ms", "--backward", "2ms", option, text, "--json"})
                                        .out)) {
      found.push_back(row["options"][option.substr(2)].get<std::string>());
    }
    return found;
  };
  EXPECT_EQ(values("--batches", "1..3"), (Strings{"1", "2", "3"}));
  EXPECT_EQ(values("--batches", "2..9+3,100"), (Strings{"2", "5", "8", "100"}));
  EXPECT_EQ(values("--batches", "3..48*2"), (Strings{"3", "6", "12", "24", "48"}));
  EXPECT_EQ(values("--transfer", "1us..100us*10"), (Strings{"1us", "10us", "100us"}));
  EXPECT_EQ(values("--activation-cap", "2,3"), (Strings{"2", "3"}));
  EXPECT_EQ(values("--activation-cap", "2,3;3,2"), (Strings{"2,3", "3,2"}));
  EXPECT_EQ(values("--activation-cap", "2,3;"), Strings{"2,3"});
}

TEST_F(Sweep, WhatAScheduleDoesNotHaveIsLeftOut) {
  const std::vector<Json> rows = rows_of(
      "sweep --schedule 1f1b,interleaved --chunks 2,3 --devices 2 --microbatches 4 "
      "--forward 6ms --backward 12ms");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0]["options"].contains("chunks"));
  EXPECT_EQ(rows[0]["axes"]["chunks"], nullptr);
  EXPECT_EQ(rows[1]["options"]["chunks"], "2");
  EXPECT_EQ(rows[2]["options"]["chunks"], "3");
  // The same work for all, as simulate compares schedules.
  for (const Json& row : rows) {
    EXPECT_EQ(row["options"]["costs-per"], "device");
    EXPECT_DOUBLE_EQ(row["result"]["ideal_s"], 4 * 0.018);
    expect_as_simulated(row);
  }
}

TEST_F(Sweep, FailuresAreRowsWithTheReason) {
  const Ran ran = tandem(
      "sweep --schedule 1f1b,2bw --devices 4 --microbatches 2,8 --forward 1ms "
      "--backward 2ms --csv rows.csv");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith("4 configurations: 3 simulated, 1 refused\n\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nrefused:\n     1  "));
  EXPECT_THAT(ran.out, HasSubstr("(schedule 2bw, microbatches 2)\n"));
  EXPECT_THAT(read("rows.csv"), HasSubstr("\n2,,2bw,2,"));
}

TEST_F(Sweep, WhenAllFailSoDoesTheSweep) {
  const Ran ran = tandem(
      "sweep --schedule 2bw --devices 4 --microbatches 1,2 --forward 1ms "
      "--backward 2ms");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("2bw"));
  EXPECT_EQ(tandem("sweep --schedule 1f1b,2bw --microbatches 4 --forward 1ms --backward 2ms").code,
            2);
}

TEST_F(Sweep, RanksByWhatIsAskedFor) {
  const auto first = [&](const std::string& by) {
    const Ran ran = tandem(kPlain + " --activation-bytes 1MiB --memory 1GiB --top 1 --rank " + by);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const std::size_t at = ran.out.find("tandem simulate ");
    return at == std::string::npos ? ran.out : ran.out.substr(at);
  };
  EXPECT_THAT(first("throughput"), HasSubstr(" --schedule 2bw "));
  EXPECT_THAT(first("makespan"), HasSubstr(" --devices 2 --microbatches 4 "));
  EXPECT_THAT(first("memory"), HasSubstr(" --schedule 1f1b --devices 2 "));
  EXPECT_THAT(first("bubble"), HasSubstr(" --schedule 2bw --devices 2 --microbatches 4 "));
}

TEST_F(Sweep, WhatDoesNotFitIsBehindWhatFits) {
  // The fastest holds all microbatches at once.
  const std::string line =
      "sweep --schedule gpipe,1f1b --devices 2 --microbatches 4,8 --forward 1ms --backward 2ms "
      "--activation-bytes 1MiB --memory 3MiB";
  const Ran ran = tandem(line);
  EXPECT_THAT(ran.out, StartsWith("4 configurations: 4 simulated, of which 2 fit"));
  const std::size_t fits = ran.out.find("1f1b      4"), fails = ran.out.find("gpipe     8");
  ASSERT_NE(fits, std::string::npos) << ran.out;
  ASSERT_NE(fails, std::string::npos) << ran.out;
  EXPECT_LT(fits, fails);
  EXPECT_THAT(ran.out, HasSubstr("  NO\n"));
  EXPECT_THAT(tandem(line + " --top 1").out, HasSubstr("\nand 3 more\n"));
}

TEST_F(Sweep, TheNumberOfThreadsChangesNothing) {
  const std::string line = kPlain + " --recompute none,full --batches 1..4 --csv rows.csv ";
  const Ran one = tandem(line + "--threads 1 --json-lines rows.jsonl");
  ASSERT_EQ(one.code, 0) << one.err;
  const std::string rows = read("rows.jsonl"), csv = read("rows.csv");
  EXPECT_EQ(lines_of(rows).size(), 64u);
  for (const std::string threads : {"2", "7"}) {
    const Ran other = tandem(line + "--json-lines rows.jsonl --threads " + threads);
    EXPECT_EQ(other.out, one.out);
    EXPECT_EQ(read("rows.jsonl"), rows);
    EXPECT_EQ(read("rows.csv"), csv);
  }
}

TEST_F(Sweep, PicturesShowTheFrontierAndTheLines) {
  const std::string line = kPlain + " --activation-bytes 1MiB --memory 1GiB ";
  const Ran frontier = tandem(line + "--picture --svg frontier.svg");
  ASSERT_EQ(frontier.code, 0) << frontier.err;
  EXPECT_THAT(frontier.out, HasSubstr("\n  1  schedule 2bw, devices 2"));
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  const std::string svg = read("frontier.svg");
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  EXPECT_EQ(count(svg, "<title>"), 8u + 2u);  // points and legend
  const Ran lines = tandem(line + "--svg lines.svg --over microbatches --by devices");
  ASSERT_EQ(lines.code, 0) << lines.err;
  EXPECT_EQ(count(read("lines.svg"), "<title>"), 4u + 2u);
}

TEST_F(Sweep, ThePictureHasALineAtTheCapacityAndNoRoomForWhatDoesNotFit) {
  const std::string line = kPlain + " --activation-bytes 1MiB ";
  const Ran near = tandem(line + "--memory 3MiB --picture --svg near.svg");
  EXPECT_THAT(near.out, HasSubstr("a 1f1b   b 2bw, delayed weights   : capacity 3.0 MiB\n"));
  EXPECT_THAT(near.out, HasSubstr("\nnot shown: 4 "));
  EXPECT_THAT(near.out, ::testing::Not(HasSubstr("beyond the right edge")));
  EXPECT_THAT(read("near.svg"), HasSubstr(">capacity 3.0 MiB</text>"));
  const Ran far = tandem(line + "--memory 1GiB --picture");
  EXPECT_THAT(far.out, HasSubstr("\ncapacity 1.0 GiB is beyond"));
  EXPECT_THAT(far.out, ::testing::Not(HasSubstr("not shown")));
  // Where nothing fits all is shown.
  const Ran none = tandem(line + "--memory 1MiB --picture");
  EXPECT_THAT(none.out, HasSubstr("   . does not fit   : capacity 1.0 MiB\n"));
  EXPECT_THAT(none.out, ::testing::Not(HasSubstr("not shown")));
}

}  // namespace
}  // namespace tandem::testing
