// `plan` of a model on a cluster: an answer that `simulate` agrees with.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class PlanOnCluster : public CommandLine {
 protected:
  static constexpr const char* kQuestion =
      "plan --model gpt3-1.3b --cluster DGX-A100 --global-batch 64";
};

TEST_F(PlanOnCluster, SimulateAgreesWithEveryPlan) {
  const Json result =
      Json::parse(tandem(std::string(kQuestion) + " --dtype fp16 --json").out)["result"];
  ASSERT_GT(result["ranked"].size(), 3u);
  EXPECT_EQ(result["gap"], 0.0);
  for (const Json& plan : result["ranked"]) {
    const std::string command = plan["command"];
    const auto simulated = tandem(command.substr(std::string("tandem ").size()) + " --json");
    ASSERT_EQ(simulated.code, 0) << command << simulated.err;
    const Json of = Json::parse(simulated.out)["result"];
    EXPECT_DOUBLE_EQ(of["period_s"], plan["period_s"]) << command;
    EXPECT_GE(plan["period_s"], result["bound"]);
  }
}

TEST_F(PlanOnCluster, WhatIsGivenIsNotSearched) {
  const Json result = Json::parse(tandem(std::string(kQuestion) +
                                         " --tensor 2 --width 1 --microbatch-size 2 --zero 0 "
                                         "--recompute full --semantics vanilla --json")
                                      .out)["result"];
  for (const Json& plan : result["ranked"]) {
    EXPECT_EQ(plan["tensor"], 2);
    EXPECT_EQ(plan["width"], 1);
    EXPECT_EQ(plan["microbatch_size"], 2);
    EXPECT_EQ(plan["zero"], 0);
    EXPECT_EQ(plan["recompute"], "full");
    EXPECT_EQ(plan["semantics"], "vanilla");
  }
}

TEST_F(PlanOnCluster, FewerDevicesAreNeverFaster) {
  double before = 0.0;
  for (const char* devices : {"8", "4", "2"}) {
    const Json result = Json::parse(
        tandem(std::string(kQuestion) + " --devices " + devices + " --json").out)["result"];
    const double now = result["ranked"][0]["period_s"];
    EXPECT_GE(now, before) << devices;
    before = now;
  }
}

TEST_F(PlanOnCluster, AnyNumberOfAClustersDevicesMayBeAsked) {
  const auto large = tandem(
      "plan --model gpt3-1.3b --cluster 1024xDGX-A100 --global-batch 8 --devices 8192 --schedule "
      "data-parallel --tensor 1");
  EXPECT_EQ(large.code, 0) << large.err;
}

TEST_F(PlanOnCluster, BadQuestionsAreRefused) {
  const std::string question = kQuestion;
  EXPECT_EQ(tandem("plan --cluster DGX-A100 --global-batch 64").code, 2);
  EXPECT_EQ(tandem("plan --model gpt3-1.3b --cluster DGX-A100").code, 2);
  EXPECT_EQ(tandem(question + " --planner pipedream --output plan.json").code, 2);
  EXPECT_EQ(tandem(question + " --schedule 3f3b").code, 2);
  EXPECT_THAT(tandem(question + " --schedule 1f1b,a-very-long-name-of-a-schedule").err,
              ::testing::HasSubstr("a-very-long-name-of-a-schedule"));
  EXPECT_EQ(tandem(question + " --recompute all").code, 2);
  EXPECT_EQ(tandem(question + " --tensor 7").code, 3);
  EXPECT_EQ(tandem(question + " --memory 100MiB").code, 4);
  EXPECT_EQ(tandem(question + " --depth 9").code, 4);
}

}  // namespace
}  // namespace tandem::testing
