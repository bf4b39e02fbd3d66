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
  const Ran plan = good(
      "plan --profile profile.json --devices 2 --global-batch 8 --schedule "
      "2bw,1f1b --output plan.json");
  EXPECT_THAT(plan.out, HasSubstr("Wrote plan.json.\n"));
  EXPECT_THAT(good("check plan.json").out, HasSubstr("\nverified: "));
  good("simulate plan.json --batches 4 --trace simulated.json");
  const Ran train = good("train plan.json --steps 4 --verify --trace measured.json.gz");
  EXPECT_THAT(train.out, HasSubstr("as planned to the byte"));
  EXPECT_THAT(train.out, HasSubstr("verified: every weight after every update equals the serial "
                                   "reference, bit for bit"));
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
  EXPECT_THAT(ran.err, HasSubstr("error: plan.json: does not fit in 1.0 KiB a device: device 0 "));
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
  for (const std::string option : {"schedule 1f1b", "devices 4", "costs x", "width 2"}) {
    expect_error("simulate plan.json --" + option, 2,
                 "error: tandem simulate: the plan says --" + option.substr(0, option.find(' ')) +
                     " already");
  }
  expect_error("simulate plan.json --forward 1ms", 2,
               "error: tandem simulate: a plan has measured costs: --forward is not taken");
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
  EXPECT_THAT(good("train plan.json --steps 2 --verify").out, HasSubstr("verified: every weight"));
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
  expect_error("plan --devices 2 --global-batch 4", 2, "error: tandem plan: --profile is missing");
  expect_error("plan --profile profile.json --devices 2 --global-batch 4 --schedule ,", 2,
               "error: tandem plan: --schedule: expected names such as 2bw,1f1b, found none");
  expect_error("plan --profile profile.json --devices 2 --global-batch 4 --schedule terapipe", 2,
               "error: schedule terapipe is not in this version (tandem schedule --list shows all "
               "that are)");
}

TEST_F(Job, ProfileRefusesSizesThatAreNone) {
  write("model.json", kModel);
  for (const std::string sizes : {"0", "1,", ",1", "1,,2", "-1", "x", "999999", "1;2"}) {
    const Ran ran = tandem("profile --model model.json --output p.json --microbatch-size " + sizes);
    EXPECT_EQ(ran.code, 2) << sizes;
    EXPECT_EQ(ran.err,
              "error: tandem profile: --microbatch-size: expected sizes such as 1,2,4, "
              "found \"" +
                  sizes + "\"\n");
  }
  EXPECT_EQ(files(), std::vector<std::string>{"model.json"});
}

TEST_F(Job, ProfileRefusesModelsThatCannotReadBytes) {
  write("model.json",
        with(std::string(kModel), "\"sequence\"", "\"vocabulary\": 255, \"sequence\""));
  expect_error("profile --model model.json --output p.json", 3,
               "error: model \"tiny\": a vocabulary of 255 can't hold byte tokens; 256 can");
  EXPECT_EQ(files(), std::vector<std::string>{"model.json"});
}

TEST_F(Job, ReferenceHasNothingToTraceOrVerify) {
  write_plan();
  for (const std::string option : {"verify", "trace x.json"}) {
    expect_error("train plan.json --reference --" + option, 2,
                 "error: tandem train: --reference is serial: it has no trace, and nothing to "
                 "verify");
  }
}

}  // namespace
}  // namespace tandem::testing
