// `plan` of a model on a cluster: an answer that `simulate` agrees with.

#include <algorithm>
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

TEST_F(PlanOnCluster, TheBatchThatNobodyGaveIsTheSmallestAsGoodAsAny) {
  const std::string question = "plan --model gpt3-1.3b --cluster DGX-A100 --schedule 1f1b --json";
  const Json asked = Json::parse(tandem(question + " --global-batch 8..64").out);
  EXPECT_EQ(asked["config"]["global_batches"], (Json{8, 16, 32, 64}));
  const Json& batches = asked["result"]["batches"];
  ASSERT_EQ(batches.size(), 4u);
  double most = 0.0;
  for (const Json& one : batches)
    most = std::max(most, one["best"]["throughput_samples_per_s"].get<double>());
  for (const Json& one : batches) {
    if (one["best"]["throughput_samples_per_s"] < most / 1.02) continue;
    EXPECT_EQ(one["global_batch"], asked["config"]["global_batch"]);
    EXPECT_EQ(one["best"], asked["result"]["ranked"][0]);
    break;
  }
  const Json usual = Json::parse(tandem(question + " --tensor 1 --microbatch-size 4").out);
  EXPECT_EQ(usual["config"]["global_batches"], (Json{256, 512, 1024, 2048, 4096, 8192}));
}

TEST_F(PlanOnCluster, ExplainsWhatMoreOfTheClusterWouldDo) {
  const std::string question = std::string(kQuestion) + " --schedule 1f1b --tensor 1 --explain";
  const Json result = Json::parse(tandem(question + " --json").out)["result"];
  const Json& gains = result["marginal"]["gains"];
  ASSERT_EQ(gains.size(), 6u);
  EXPECT_EQ(gains[0]["of"], "compute");
  EXPECT_LT(gains[0]["change"], 0.0);
  EXPECT_GE(gains[0]["change"], 1 / 1.01 - 1 - 1e-12);
  const Json& best = result["marginal"]["best"];
  EXPECT_NEAR(best["computes_s"].get<double>() + best["waits_s"].get<double>(),
              result["ranked"][0]["period_s"].get<double>(), 1e-9);
  EXPECT_THAT(tandem(question).out, ::testing::HasSubstr("\nany amount of memory "));
}

TEST_F(PlanOnCluster, DrawsWhatLessWouldDo) {
  const auto ran =
      tandem(std::string(kQuestion) + " --schedule 1f1b --tensor 1 --report page.html");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string page = read("page.html");
  for (const char* words : {"gpt3-1.3b on DGX-A100, batches of 64", "Within less memory",
                            "On fewer devices", "US$ a million tokens", "</html>"})
    EXPECT_THAT(page, ::testing::HasSubstr(words));
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
  const std::string open = "plan --model gpt3-1.3b --cluster DGX-A100";
  for (const char* batches : {"64..8", "0..8", "8..", "..8", "8..16..32", "8..x"})
    EXPECT_EQ(tandem(open + " --global-batch " + batches).code, 2) << batches;
  EXPECT_EQ(tandem(open + " --objective memory").code, 2);
  EXPECT_EQ(tandem(open + " --planner 2bw").code, 2);
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
