// `plan --beside`: what somebody runs with, beside the best plan.

#include <string>

#include <gmock/gmock.h>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class PlanBeside : public CommandLine {
 protected:
  static constexpr const char* kQuestion =
      "plan --model gpt2 --cluster p3.16xlarge --global-batch 16 --beside ";
  static constexpr const char* kOwn = "schedule=1f1b,depth=4,recompute=full";
};

TEST_F(PlanBeside, IsWhatSimulateMakesOfIt) {
  const Json result = json_of(std::string(kQuestion) + kOwn + " --json")["result"];
  const Json& beside = result["beside"].at(0);
  const auto simulated = tandem(
      "simulate --model gpt2 --cluster p3.16xlarge --global-batch 16 --schedule 1f1b "
      "--depth 4 --recompute full --json");
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const Json said = Json::parse(simulated.out)["result"];
  EXPECT_DOUBLE_EQ(beside["plan"]["period_s"], said["period_s"]);
  EXPECT_EQ(beside["plan"]["width"], 2);
  EXPECT_TRUE(beside["fits"]);
  const double best = result["ranked"][0]["period_s"];
  EXPECT_DOUBLE_EQ(beside["over_best"], beside["plan"]["period_s"].get<double>() / best);
  EXPECT_GT(beside["over_best"], 1.0);
  EXPECT_GT(beside["known_faster"], 0);
}

TEST_F(PlanBeside, EachChangeAloneIsNoWorseAndNoBetterThanTheBest) {
  const Json result =
      json_of(std::string(kQuestion) + kOwn + " --semantics vanilla --json")["result"];
  const Json& beside = result["beside"].at(0);
  ASSERT_EQ(beside["changes"].size(), 6u);
  const double own = beside["plan"]["period_s"], best = result["ranked"][0]["period_s"];
  std::size_t faster = 0;
  for (const Json& change : beside["changes"]) {
    const double seconds = change["best"]["period_s"];
    EXPECT_LE(seconds, own) << change["free"];
    EXPECT_GE(seconds, best) << change["free"];
    faster += seconds < 0.99 * own ? 1 : 0;
    if (change["free"] == "recomputation") continue;
    EXPECT_EQ(change["best"]["recompute"], "full") << change["free"];
  }
  EXPECT_GE(faster, 2u);
}

// Our own best, as a file and as text, ranks first: the control of all that is called faster.
TEST_F(PlanBeside, TheBestIsAsFastAsItself) {
  const std::string path = "best.json";
  const auto written =
      tandem("plan --model gpt2 --cluster p3.16xlarge --global-batch 16 --output " + path);
  ASSERT_EQ(written.code, 0) << written.err;
  const Json beside = json_of(kQuestion + path + " --json")["result"]["beside"].at(0);
  EXPECT_DOUBLE_EQ(beside["over_best"], 1.0);
  EXPECT_EQ(beside["known_faster"], 0);
}

TEST_F(PlanBeside, SaysWhatDoesNotFitAndByHowMuch) {
  const auto run = tandem(
      "plan --model gpt-2.2b --cluster p3.16xlarge --global-batch 64 --gap 20% --beside "
      "schedule=1f1b,depth=8,microbatch-size=32;schedule=gpipe,depth=8,recompute=full");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::HasSubstr("does not fit: needs "));
  EXPECT_THAT(run.out, ::testing::HasSubstr("schedule=gpipe,depth=8,recompute=full: "));
}

TEST_F(PlanBeside, OtherQuestionsAreRefused) {
  for (const char* wrong :
       {"schedule=1f1b", "depth=4", "schedule=1f1b,depth=4,chunks=2", "schedule=1f1b,depth=4,x=1",
        "schedule=1f1b,depth=4,depth=2", "schedule=1f1b,depth=4,tensor=x", "schedule=,depth=4",
        "schedule=1f1b,depth=4,global-batch=64", "schedule=3f3b,depth=4"})
    EXPECT_EQ(tandem(std::string(kQuestion) + wrong).code, 2) << wrong;
  EXPECT_EQ(tandem(std::string(kQuestion) + "none.json").code, 3);
  EXPECT_EQ(tandem(std::string(kQuestion) + "schedule=1f1b,depth=9").code, 3);
  EXPECT_EQ(tandem(std::string(kQuestion) + kOwn + " --planner 2bw").code, 2);
  EXPECT_EQ(tandem(std::string(kQuestion) + kOwn + " --objective memory").code, 2);
  const std::string path = "other.json";
  const auto written = tandem(
      "plan --model gpt2 --cluster p3.16xlarge --global-batch 32 --gap 20% --output " + path);
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(tandem(kQuestion + path).code, 3) << "a plan of another model";
}

}  // namespace
}  // namespace tandem::testing
