// tandem simulate --scenarios.

#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::string kLine =
    "simulate --schedule 1f1b --devices 4 --microbatches 8 --forward 1ms --backward 2ms "
    "--transfer 0.1ms";

class Uncertain : public CommandLine {
 protected:
  Json of(const std::string& line) const {
    return json_of(line + " --json")["result"]["uncertainty"];
  }
};

TEST_F(Uncertain, ScenariosHavePercentilesInOrder) {
  const Json json = of(kLine + " --scenarios 100 --seed 7 --jitter 5%");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{
                               "scenarios", "seed", "jitter", "straggler_rate", "straggler_factor",
                               "batches", "warm_up_batches", "without_noise_s", "p50_s", "p95_s",
                               "p99_s", "mean_s", "least_s", "worst_s"}));
  EXPECT_EQ(json["scenarios"], 100);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["jitter"], 0.05);
  EXPECT_EQ(json["without_noise_s"], json_of(kLine + " --json")["result"]["period_s"]);
  EXPECT_LT(json["least_s"], json["p50_s"]);
  EXPECT_LT(json["p50_s"], json["p95_s"]);
  EXPECT_LT(json["p95_s"], json["p99_s"]);
  EXPECT_LE(json["p99_s"], json["worst_s"]);
  EXPECT_GT(json["mean_s"], json["without_noise_s"]) << "who waits for several waits for the last";
}

TEST_F(Uncertain, AnswersDoNotDependOnThreadsButOnTheSeed) {
  const std::string line = kLine + " --scenarios 37 --jitter 5% --straggler-rate 10%:1.5x";
  const Json one = of(line + " --threads 1");
  EXPECT_EQ(of(line + " --threads 3"), one);
  EXPECT_EQ(of(line), one);
  EXPECT_EQ(of(line + " --seed 1"), one);
  EXPECT_NE(of(line + " --seed 2")["p50_s"], one["p50_s"]);
}

TEST_F(Uncertain, WithoutNoiseEveryScenarioIsTheRunItself) {
  for (const std::string noise : {"", " --jitter 0%", " --straggler-rate 0%:3"}) {
    const Json json = of(kLine + " --scenarios 9" + noise);
    for (const char* key : {"p50_s", "p99_s", "mean_s", "least_s", "worst_s"})
      EXPECT_DOUBLE_EQ(json[key], json["without_noise_s"]) << key;
  }
}

TEST_F(Uncertain, KnownTroubleIsThereInEveryScenario) {
  const Json json = of(kLine + " --scenarios 9 --slow-device 3:0.5");
  EXPECT_EQ(json["worst_s"], json_of(kLine + " --slow-device 3:0.5 --json")["result"]["period_s"]);
}

TEST_F(Uncertain, ASearchTakesTheSeedToo) {
  const std::string line =
      "simulate --schedule search --orders 50 --devices 2 --microbatches 4 --forward 1ms "
      "--backward-input 1ms --backward-weight 1ms --scenarios 8 --jitter 5% --seed 3";
  EXPECT_EQ(json_of(line + " --json")["result"]["search"]["seed"], 3);
  EXPECT_EQ(of(line)["seed"], 3);
}

}  // namespace
}  // namespace tandem::testing
