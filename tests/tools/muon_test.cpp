// --optimizer muon: from a plan to training, its memory and its price, its options.

#include <string>
#include <string_view>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class MuonOption : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    write("profile.json", profile_text());
    write("muon.json", with(plan_text(), "\"adamw\"", "\"muon\""));
  }
  static double bytes(const Json& json, const std::string& key) {
    return json["result"]["devices"][0][key].get<double>();
  }
};

TEST_F(MuonOption, TrainsTheReferencesBitsInTheMemoryThatIsPlanned) {
  const std::string train = " --steps 4 --verify --json ";
  const bool bf16 = json_of("doctor --json")["result"]["bf16_products"] == "yes";
  for (const char* options : {"", "--delay-correction error-feedback", "--products bf16"}) {
    if (std::string_view(options) == "--products bf16" && !bf16) continue;
    const Json muon = json_of("train muon.json" + train + options)["result"];
    EXPECT_EQ(muon["verified"], true);
    for (const Json& row : muon["memory"]) EXPECT_EQ(row["equal"], true) << options;
    const Json adamw = json_of("train plan.json" + train + options)["result"];
    EXPECT_EQ(muon["losses"][0], adamw["losses"][0]);
    EXPECT_NE(muon["losses"], adamw["losses"]);
  }
  const Json muon = json_of("check muon.json --json"), adamw = json_of("check plan.json --json");
  EXPECT_LT(bytes(muon, "optimizer_bytes"), bytes(adamw, "optimizer_bytes"));
}

TEST_F(MuonOption, HasItsRateAndItsScale) {
  const auto losses = [&](const std::string& options) {
    return json_of("train muon.json --steps 4 --json " + options)["result"]["losses"];
  };
  const Json plain = losses("");
  EXPECT_EQ(losses("--muon-learning-rate 0.0005 --muon-scale match-rms-adamw"), plain);
  EXPECT_NE(losses("--muon-learning-rate 0.02"), plain);
  EXPECT_NE(losses("--muon-scale original"), plain);
  EXPECT_EQ(losses("--learning-rate 0.001 --muon-learning-rate 0.001"),
            losses("--learning-rate 0.001"));
  expect_refused("train muon.json --steps 1 --muon-scale none", 2, "--muon-scale");
  expect_refused("train plan.json --steps 1 --muon-scale original", 2, "--muon-scale");
  expect_refused("train plan.json --steps 1 --muon-learning-rate 0.1", 2, "--muon-learning-rate");
}

TEST_F(MuonOption, IsMeasuredAndPlanned) {
  write("model.json", kModel);
  json_of(
      "profile --model model.json --microbatch-size 1 --repetitions 1 --devices 1 --optimizer muon "
      "--output measured.json --json");
  EXPECT_EQ(Json::parse(read("measured.json"))["optimizer"], "muon");
  const Json planned = json_of(
      "plan --profile measured.json --devices 1 --global-batch 4 --schedule 2bw --json --output "
      "planned.json");
  EXPECT_EQ(planned["warnings"], Json::array());
  EXPECT_EQ(Json::parse(read("planned.json"))["optimizer"], "muon");
  EXPECT_THAT(tandem("train planned.json --steps 3 --verify").out, HasSubstr("\nverified: "));
}

TEST_F(MuonOption, IsPricedOnAClusterButNotInPartsOfMatrices) {
  const std::string simulate =
      "simulate --model gpt2 --cluster p3.16xlarge --schedule 2bw --depth 2 --width 1 "
      "--fits-by tandem --optimizer ";
  const Json adamw = json_of(simulate + "adamw --json");
  const Json muon = json_of(simulate + "muon --json");
  EXPECT_EQ(muon["config"]["optimizer"], "muon");
  EXPECT_GT(muon["result"]["period_s"], adamw["result"]["period_s"]);
  EXPECT_LT(bytes(muon, "peak_bytes"), bytes(adamw, "peak_bytes"));
  expect_refused(simulate + "muon --tensor 2", 3, "--tensor 1");
}

}  // namespace
}  // namespace tandem::testing
