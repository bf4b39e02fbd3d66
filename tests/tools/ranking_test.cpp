// What stands in a ranking and how: weights, twins, shapes, the reserve.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/sweep.h"

namespace tandem::testing {
namespace {

class Ranking : public SweepCommand {};

/// Twelve configurations under flash attention: three shapes of eight devices, and two ways to
/// recompute that are one.
const std::string kFlash =
    "sweep --model gpt2 --cluster DGX-A100 --schedule 1f1b,2bw --microbatch-size 1 --depth 2,4,8 "
    "--recompute none,selective --global-batch 64";

TEST_F(Ranking, WhatIsOnePlanHasOneRow) {
  const Ran ran = tandem(kFlash + " --csv rows.csv");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("none = selective"));
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("\n7 ")));
  // All rows are in files: what goes on with them needs them.
  const std::string csv = read("rows.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 13);
  EXPECT_THAT(csv, HasSubstr(",semantics,same_plan_as,impossible_shape\n"));
  EXPECT_THAT(csv, ::testing::ContainsRegex("\n1,[0-9]+,1f1b,2,selective,.*,vanilla,0,\n"));
  EXPECT_EQ(rows_of(kFlash).size(), 12u);
}

/// With plain attention there is something to compute again.
TEST_F(Ranking, WhatDiffersInAFigureIsAnotherPlan) {
  const Ran ran = tandem(kFlash + " --attention plain");
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr(" = ")));
  EXPECT_THAT(ran.out, HasSubstr("\n12 "));
}

TEST_F(Ranking, WeightsThatAreNotVanillaAreMarked) {
  const Ran ran = tandem(kPlain + " --csv rows.csv");
  EXPECT_THAT(ran.out, HasSubstr("  weights  "));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\n1 +2bw .* delayed "));
  EXPECT_THAT(read("rows.csv"), HasSubstr(",delayed by one,"));
  const std::string vanilla =
      tandem(
          "sweep --schedule 1f1b,gpipe --devices 2 --microbatches 4 --forward 1ms "
          "--backward 2ms")
          .out;
  EXPECT_THAT(vanilla, ::testing::Not(HasSubstr("weights")));
}

TEST_F(Ranking, VanillaSemanticsLeaveTheOthersOut) {
  const std::vector<Json> rows = rows_of(kPlain + " --semantics vanilla");
  for (const Json& row : rows)
    EXPECT_EQ(row.contains("error"), row["options"]["schedule"] == "2bw") << row["options"];
  EXPECT_EQ(rows.back()["error"]["code"], 3);
  const std::string shape =
      " --devices 2 --microbatches 4 --forward 1ms --backward 2ms --semantics vanilla";
  EXPECT_EQ(tandem("simulate --schedule pipedream" + shape).code, 3);
  EXPECT_EQ(tandem("simulate --schedule 1f1b" + shape).code, 0);
  const Json compared =
      json_of("simulate --schedule 2bw,1f1b,pipedream --json" + shape)["result"]["schedules"];
  EXPECT_EQ(compared[0]["schedule"], "1f1b");
  EXPECT_EQ(compared[0]["semantics"], "vanilla");
  EXPECT_TRUE(compared[1].contains("refused"));
  EXPECT_TRUE(compared[2].contains("refused"));
}

TEST_F(Ranking, AComparisonOfSchedulesMarksThem) {
  const std::string shape = " --devices 2 --microbatches 4 --forward 1ms --backward 2ms";
  const std::string table = tandem("simulate --schedule 2bw,1f1b,pipedream" + shape).out;
  EXPECT_THAT(table, ::testing::ContainsRegex("\n2bw .* delayed\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\n1f1b .* vanilla\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\npipedream .* stashed\n"));
}

TEST_F(Ranking, TheShapeStandsThereWhereItWasChosen) {
  const std::string line =
      "sweep --model gpt2 --cluster p3.16xlarge --schedule 1f1b --microbatch-size 1,2 ";
  const Ran ran = tandem(line + "--csv rows.csv");
  EXPECT_THAT(ran.out, HasSubstr("  tensor x depth x width  "));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\n1  [12] +1 x [248] x [124] "));
  EXPECT_THAT(read("rows.csv"), HasSubstr(",tensor,depth,width,semantics,"));
  // What it says is what simulate chose.
  const Json config = rows_of(line)[0]["config"];
  EXPECT_THAT(ran.out, HasSubstr(fmt::format("1 x {} x {}", config["depth"].get<int>(),
                                             config["width"].get<int>())));
  EXPECT_THAT(tandem(kPlain).out, HasSubstr("  depth x width  "));
}

TEST_F(Ranking, ShapesThatCannotBeAreCounted) {
  const std::string line =
      "sweep --model gpt2 --cluster p3.16xlarge --schedule 1f1b --depth 2,4,8 --width 1,4,8 "
      "--global-batch 64";
  const Ran ran = tandem(line + " --csv rows.csv");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("9 configurations: 4 simulated, of which 4 fit"));
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("refused:")));
  // Files have them all.
  const std::vector<Json> rows = rows_of(line);
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[2]["impossible_shape"], true);
  EXPECT_EQ(rows[2]["error"]["code"], 3);
  const std::string csv = read("rows.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 10);
  // Any other refusal is listed as before.
  EXPECT_THAT(tandem(line + " --dtype fp16,bf16").out, HasSubstr("V100-SXM2-16GB"));
}

TEST_F(Ranking, WhatFitsLeavesAReserve) {
  const std::string line =
      "simulate --model gpt2-xl --cluster p3.16xlarge --schedule 1f1b --depth 8 --width 1 "
      "--microbatches 8 --cut even --json";
  const Json all = json_of(line + " --reserve 0"), usual = json_of(line);
  EXPECT_EQ(usual["assumptions"]["reserve"], Json::parse(R"({"share": 0.06, "bytes": 0})"));
  const Json& device = usual["result"]["devices"][0];
  EXPECT_EQ(device["capacity_bytes"], std::int64_t{16} << 30);
  EXPECT_EQ(device["reserve_bytes"], 1030792151);
  const auto peak = device["peak_bytes"].get<std::int64_t>();
  // To the byte: what is left after the reserve is just enough, or one too little.
  const auto fits = [&](std::int64_t reserve) {
    const Json json = json_of(line + fmt::format(" --reserve {}B", reserve));
    return json["result"]["devices"][0]["fits"].get<bool>();
  };
  const std::int64_t left = (std::int64_t{16} << 30) - peak;
  EXPECT_TRUE(fits(left));
  EXPECT_FALSE(fits(left + 1));
  EXPECT_EQ(all["result"]["devices"][0]["reserve_bytes"], 0);
}

TEST_F(Ranking, WhatFitsGoesByTheFigureThatIsAskedFor) {
  const std::string line =
      "--model gpt2-xl --cluster p3.16xlarge --schedule zb-h2 --depth 8 --microbatches 32 "
      "--microbatch-size 2 --cut even --memory ";
  const auto fullest = [&](const std::string& command, const std::string& more) {
    std::int64_t peak = 0, framework = 0, own = 0;
    const Json json = json_of(command + more);
    for (const Json& device : json["result"]["devices"]) {
      peak = std::max(peak, device["peak_bytes"].get<std::int64_t>());
      framework = std::max(framework, device["framework_bytes"].get<std::int64_t>());
      own = std::max(own, device["tandem_bytes"].get<std::int64_t>());
    }
    return std::array{peak, framework, own};
  };
  for (const std::string& command : {"simulate --json " + line, "check --json " + line}) {
    const auto [peak, framework, own] = fullest(command, "1TiB");
    EXPECT_EQ(peak, framework);
    EXPECT_LT(framework, own);
    EXPECT_EQ(fullest(command, "1TiB --fits-by tandem")[0], own);
  }
  const std::string between =
      fmt::format("{}B --reserve 0", fullest("check --json " + line, "1TiB")[1]);
  EXPECT_EQ(tandem("check " + line + between).code, 0);
  EXPECT_EQ(tandem("check " + line + between + " --fits-by tandem").code, 4);
  for (const std::string by : {"framework", "tandem"}) {
    const std::string swept = "sweep " + line + between + " --fits-by " + by;
    EXPECT_THAT(tandem(swept).out, HasSubstr(by == "tandem" ? "0 fit (--fits-by tandem)"
                                                            : "1 fit (--fits-by framework)"));
  }
}

/// A plan's bytes are allocated as they are counted: nothing is kept unless it is asked for.
TEST_F(Ranking, APlanMayFillItsMemory) {
  write_plan();
  const Json devices = json_of("check plan.json --json")["result"]["devices"];
  const auto peak = std::max(devices[0]["peak_bytes"].get<std::int64_t>(),
                             devices[1]["peak_bytes"].get<std::int64_t>());
  const std::string memory = fmt::format(" --memory {}B", peak);
  EXPECT_EQ(tandem("check plan.json" + memory).code, 0);
  EXPECT_EQ(tandem("check plan.json --reserve 1B" + memory).code, 4);
  const std::string plan = "plan --profile profile.json --devices 2 --global-batch 4" + memory;
  const Ran planned = tandem(plan + " --json");
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(Json::parse(planned.out)["config"]["memory_bytes"], peak);
  EXPECT_EQ(tandem(plan + " --reserve 99%").code, 4);
}

TEST_F(Ranking, APlansRankingMarksWeightsAndFoldsTwins) {
  write("profile.json", profile_text());
  const std::string line =
      "plan --profile profile.json --devices 1 --global-batch 4 --schedule 1f1b,1f1b-eager,2bw";
  const std::string table = tandem(line).out;
  EXPECT_THAT(table, HasSubstr(" schedule        weights "));
  const Json ranked = Json::parse(tandem(line + " --json").out)["result"]["ranked"];
  ASSERT_GT(ranked.size(), 1u);
  EXPECT_TRUE(ranked[0]["same_plan_as"].is_null());
  EXPECT_EQ(ranked[1]["same_plan_as"], 0) << ranked;
  EXPECT_THAT(table, HasSubstr("1f1b = 1f1b-eager"));
}

}  // namespace
}  // namespace tandem::testing
