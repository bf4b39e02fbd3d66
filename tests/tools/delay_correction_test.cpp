// --delay-correction: from a plan to training, its memory and its price, and what refuses it.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class DelayCorrectionOption : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    write("profile.json", profile_text());
  }
  /// A number of a class of memory, of the first device.
  static double bytes(const Json& json, const std::string& key) {
    return json["result"]["devices"][0][key].get<double>();
  }
};

TEST_F(DelayCorrectionOption, StandsInThePlanThatItIsAskedOf) {
  const std::string plan =
      "plan --profile profile.json --devices 2 --global-batch 4 --schedule 2bw --json ";
  const Ran ran =
      tandem(plan + "--optimizer nadam --delay-correction error-feedback --output corrected.json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["config"]["delay_correction"], "error-feedback");
  const Json corrected = Json::parse(read("corrected.json"));
  EXPECT_EQ(corrected["optimizer"], "nadam");
  EXPECT_EQ(corrected["delay_correction"], "error-feedback");
  // The profile measured plain updates.
  EXPECT_THAT(Json::parse(ran.out)["warnings"].dump(), HasSubstr("error-feedback"));
  EXPECT_THAT(tandem("train corrected.json --steps 3 --verify").out, HasSubstr("\nverified: "));
  ASSERT_EQ(tandem(plan + "--output plain.json").code, 0);
  const Json plain = Json::parse(read("plain.json"));
  EXPECT_EQ(plain["optimizer"], "adamw");
  EXPECT_FALSE(plain.contains("delay_correction"));
}

TEST_F(DelayCorrectionOption, TrainsToOtherWeightsInTheMemoryThatIsPlanned) {
  const auto run = [&](const std::string& options) {
    return json_of("train plan.json --steps 4 --verify --json " + options)["result"];
  };
  const Json plain = run(""), corrected = run("--delay-correction error-feedback");
  EXPECT_EQ(plain["losses"][0], corrected["losses"][0]);
  EXPECT_NE(plain["losses"], corrected["losses"]);
  for (const Json& row : corrected["memory"]) EXPECT_EQ(row["equal"], true);
  write("corrected.json",
        with(plan_text(), "\"adamw\"", "\"adamw\", \"delay_correction\": \"error-feedback\""));
  EXPECT_EQ(json_of("train corrected.json --steps 4 --json")["result"]["losses"],
            corrected["losses"]);
  EXPECT_EQ(run("--delay-correction none")["losses"], plain["losses"]);
  const Json before = json_of("check plan.json --json");
  const Json after = json_of("check corrected.json --json");
  EXPECT_EQ(bytes(after, "optimizer_bytes"),
            bytes(before, "optimizer_bytes") + bytes(before, "weights_bytes"));
}

TEST_F(DelayCorrectionOption, IsPricedOnAClusterAndCountedInItsMemory) {
  const std::string simulate =
      "simulate --model gpt2 --cluster p3.16xlarge --schedule 2bw --depth 2 --width 1 "
      "--optimizer adamw --fits-by tandem --json ";
  const Json plain = json_of(simulate);
  const Json corrected = json_of(simulate + "--delay-correction error-feedback");
  EXPECT_EQ(corrected["config"]["delay_correction"], "error-feedback");
  EXPECT_GT(corrected["result"]["period_s"], plain["result"]["period_s"]);
  EXPECT_GT(bytes(corrected, "peak_bytes"), bytes(plain, "peak_bytes"));
}

TEST_F(DelayCorrectionOption, IsRefusedWhereGradientsAreInTimeOrVariouslyLate) {
  write("in_time.json", with(plan_text(), "\"2bw\"", "\"1f1b\""));
  EXPECT_EQ(tandem("train in_time.json --steps 1").code, 0);
  expect_refused("train in_time.json --steps 1 --delay-correction error-feedback", 3,
                 "in_time.json:4:");
  const std::string cluster = "simulate --model gpt2 --cluster p3.16xlarge --depth 2 ";
  for (const char* schedule : {"1f1b", "pipedream"}) {
    expect_refused(cluster + "--schedule " + schedule + " --delay-correction error-feedback", 3,
                   schedule);
  }
  expect_refused("train plan.json --delay-correction twice", 2, "--delay-correction");
  expect_refused(
      "simulate --schedule 2bw --devices 2 --microbatches 2 --forward 1ms --backward 2ms "
      "--delay-correction error-feedback",
      2, "--delay-correction");
  const Ran none = tandem(
      "plan --profile profile.json --devices 2 --global-batch 4 --schedule 1f1b "
      "--delay-correction error-feedback");
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("one update late"));
}

TEST_F(DelayCorrectionOption, IsMeasuredByAProfileThatIsAskedFor) {
  write("model.json", kModel);
  const std::string profile =
      "profile --model model.json --microbatch-size 1 --repetitions 1 --devices 1 --json --output ";
  const Json plain = json_of(profile + "plain.json");
  EXPECT_FALSE(plain["result"].contains("delay_correction"));
  const Json measured = json_of(profile + "measured.json --delay-correction error-feedback");
  EXPECT_EQ(measured["result"]["delay_correction"], "error-feedback");
  const Json planned = json_of(
      "plan --profile measured.json --devices 1 --global-batch 4 --schedule 2bw --json "
      "--delay-correction error-feedback");
  EXPECT_EQ(planned["warnings"], Json::array());
}

}  // namespace
}  // namespace tandem::testing
