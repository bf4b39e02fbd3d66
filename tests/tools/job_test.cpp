// The whole job, command by command, on a model that trains in milliseconds.

#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Job : public CommandLine {
 protected:
  Ran good(const std::string& line) const {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
    return ran;
  }
};

TEST_F(Job, FromProfileToComparison) {
  write("model.json", kModel);
  good(
      "profile --model model.json --microbatch-size 1,2 --devices 2 --repetitions 2 --output "
      "profile.json");
  good(
      "plan --profile profile.json --devices 2 --global-batch 8 --schedule "
      "2bw,1f1b --output plan.json");
  good("check plan.json");
  good("simulate plan.json --batches 4 --trace simulated.json");
  const Ran train = good("train plan.json --steps 4 --verify --trace measured.json.gz");
  EXPECT_THAT(train.out, HasSubstr(" to the byte"));
  EXPECT_THAT(train.out, HasSubstr("\nverified: "));
  EXPECT_THAT(good("compare simulated.json measured.json.gz").out, HasSubstr("makespan"));
  for (const std::string trace : {"simulated.json", "measured.json.gz"}) {
    EXPECT_THAT(good("trace check " + trace).out, ::testing::EndsWith("\ngood\n"));
  }
  const Ran failing = tandem("compare simulated.json measured.json.gz --fail-over 0");
  EXPECT_EQ(failing.code, 6);
  EXPECT_EQ(files(), (std::vector<std::string>{"measured.json.gz", "model.json", "plan.json",
                                               "profile.json", "simulated.json"}));
}

TEST_F(Job, TrainsAsTheReferenceDoes) {
  write_plan();
  const Json pipeline = json_of("train plan.json --steps 3 --seed 7 --json");
  const Json reference = json_of("train plan.json --steps 3 --seed 7 --reference --json");
  EXPECT_EQ(pipeline["result"]["losses"], reference["result"]["losses"]);
  EXPECT_EQ(pipeline["result"]["losses"].size(), 3u);
  EXPECT_NE(json_of("train plan.json --steps 3 --seed 8 --json")["result"]["losses"],
            pipeline["result"]["losses"]);
}

TEST_F(Job, TrainJsonSaysWhatHappened) {
  write_plan();
  const Json json = json_of("train plan.json --steps 2 --verify --json");
  EXPECT_EQ(json["command"], "train");
  EXPECT_EQ(json["config"]["plan"], "plan.json");
  EXPECT_EQ(json["config"]["schedule"], "2bw");
  EXPECT_EQ(json["config"]["steps"], 2);
  EXPECT_EQ(json["assumptions"]["weights"], "delayed by one");
  const Json& result = json["result"];
  EXPECT_EQ(result["verified"], true);
  EXPECT_GT(result["step_s"], 0.0);
  EXPECT_GT(result["tokens_per_s"], 0.0);
  ASSERT_EQ(result["memory"].size(), 2u);
  for (const Json& device : result["memory"]) {
    EXPECT_EQ(device["equal"], true);
    EXPECT_EQ(device["planned_bytes"], device["high_water_bytes"]);
  }
}

TEST_F(Job, CheckAnswersWhetherItFits) {
  write_plan();
  const Json json = json_of("check plan.json --memory 1GiB --json");
  EXPECT_EQ(json["result"]["violations"], 0);
  EXPECT_EQ(json["result"]["devices"][1]["fits"], true);
  const Ran ran = tandem("check plan.json --memory 1KiB");
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("plan.json: "));
  EXPECT_EQ(Json::parse(tandem("check plan.json --memory 1KiB --json").out)["error"]["code"], 4);
}

TEST_F(Job, SimulatesAPlanByItsProfile) {
  write_plan();
  const Json json = json_of("simulate plan.json --memory 1GiB --json");
  EXPECT_EQ(json["config"]["plan"], "plan.json");
  EXPECT_EQ(json["assumptions"]["profile"]["machine"], "by hand");
  // Four microbatches of three layers of 30 us, three updates, and half of each microbatch's two
  // hand-overs, which the minimum in flight does not hide. The sum of the tied embeddings hides.
  EXPECT_DOUBLE_EQ(json["result"]["period_s"], 4 * 3 * 30e-6 + 3 * 1e-6 + 4 * 1e-6);
  EXPECT_EQ(json["result"]["devices"][0]["fits"], true);
}

// The order is made again from what the plan carries, not from whatever profile is at hand.
TEST_F(Job, APlanMakesTheOrderThatItWasPlannedWith) {
  write_plan();
  good(
      "plan --profile profile.json --devices 2 --global-batch 6 --schedule zb-2p --output "
      "plan.json");
  const std::string text = read("plan.json");
  EXPECT_THAT(text, HasSubstr("\"order_costs\""));
  const double planned = Json::parse(text)["predicted"]["period_s"];
  EXPECT_DOUBLE_EQ(json_of("simulate plan.json --json")["result"]["period_s"], planned);
  // Links a thousand times as slow would have made another order.
  std::string other = text;
  const std::size_t at = other.find("\"transfer_ns\": 1000");
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 19, "\"transfer_ns\": 1000000");
  write("other.json", other);
  EXPECT_NE(json_of("simulate other.json --json")["result"]["makespan_s"],
            json_of("simulate plan.json --json")["result"]["makespan_s"]);
  EXPECT_THAT(good("train plan.json --steps 2 --verify").out, HasSubstr("\nverified: "));
  write("plan.json", with(plan_text(), "\"optimizer\"",
                          "\"order_costs\": {\"stages\": [], \"transfer_ns\": 0}, \"optimizer\""));
  EXPECT_EQ(tandem("check plan.json").code, 3);
}

TEST_F(Job, PlanExplainsWhyNothingFits) {
  write_plan();
  const Ran ran = tandem(
      "plan --profile profile.json --devices 2 --global-batch 4 --memory 1KiB "
      "--output out.json");
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, StartsWith("error: "));
  EXPECT_FALSE(exists("out.json"));
}

TEST_F(Job, ProfileRefusesSizesThatAreNone) {
  write("model.json", kModel);
  for (const std::string sizes : {"0", "1,", ",1", "1,,2", "-1", "x", "999999", "1;2"}) {
    const Ran ran = tandem("profile --model model.json --output p.json --microbatch-size " + sizes);
    EXPECT_EQ(ran.code, 2) << sizes;
    EXPECT_THAT(ran.err, HasSubstr("--microbatch-size: "));
  }
  EXPECT_EQ(files(), std::vector<std::string>{"model.json"});
}

}  // namespace
}  // namespace tandem::testing
