// Measured iterations become constants, and these prices of a model on a cluster.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Calibrate : public CommandLine {};

TEST_F(Calibrate, RowsBecomeConstantsAndAnErrorTable) {
  write("rows.csv", fixture("rows.csv"));
  const std::string line = "calibrate rows.csv --cluster DGX-A100 --dtype fp16";
  const Ran ran = tandem(line + " --output fitted.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out, "");
  EXPECT_EQ(tandem(line).out, ran.out);
  EXPECT_NE(tandem(line + " --seed 2").out, ran.out);

  const Json result = json_of(line + " --json")["result"];
  EXPECT_EQ(result["calibration"], Json::parse(read("fitted.json")));
  EXPECT_EQ(result["halves"]["rows"], 48);
  EXPECT_LT(result["halves"]["mean_error"].get<double>(), 0.1);
  EXPECT_GT(result["halves"]["shuffled_mean_error"].get<double>(), 0.2);
  EXPECT_EQ(result["pipelines"]["fitted_to"], 24);
}

TEST_F(Calibrate, ConstantsAreJudgedByRows) {
  write("rows.csv", fixture("rows.csv"));
  const std::string line = "calibrate rows.csv --cluster DGX-A100 --dtype fp16";
  ASSERT_EQ(tandem(line + " --output fitted.json").code, 0);
  const auto all_of = [&](const std::string& more) {
    return json_of(line + " --json" + more)["result"]["regimes"][0];
  };
  const Json fitted = all_of(" --judge fitted.json"), defaults = all_of(" --judge defaults");
  EXPECT_EQ(fitted["rows"], 48);
  EXPECT_LT(fitted["mean_error"].get<double>(), 0.1);
  EXPECT_GT(defaults["mean_error"].get<double>(), fitted["mean_error"].get<double>());
  EXPECT_EQ(defaults["do_not_fit"], 0);
  // What computes everything twice takes longer.
  const double bias = all_of(" --judge fitted.json --recompute full")["bias"].get<double>();
  EXPECT_GT(bias, fitted["bias"].get<double>() + 0.1);
  EXPECT_EQ(tandem(line + " --judge none.json").code, 3);
  EXPECT_EQ(tandem(line + " --judge defaults --recompute some").code, 2);
}

TEST_F(Calibrate, APredictionSaysHowFarOffItsKindIs) {
  write("rows.csv", fixture("rows.csv"));
  ASSERT_EQ(tandem("calibrate rows.csv --cluster DGX-A100 --dtype fp16 --output fitted.json").code,
            0);
  const std::string line =
      "simulate --model megatron-7.5b --cluster 4xDGX-A100 --schedule 1f1b --depth 4 --tensor 8";
  const auto spread = [&](const std::string& more) {
    const Json assumptions = json_of(line + " --json" + more)["assumptions"];
    return assumptions.contains("spread") ? assumptions["spread"] : Json(nullptr);
  };
  EXPECT_EQ(spread("")["rows"], 109);
  EXPECT_EQ(spread(" --calibration fitted.json"), Json::parse(read("fitted.json"))["spread"]);
  EXPECT_EQ(spread(" --calibration fitted.json")["rows"], 48);
  EXPECT_EQ(spread(" --product-fraction 0.5"), nullptr);  // nobody has compared that
  EXPECT_THAT(tandem(line).out, HasSubstr(" a batch ±11 %, "));
}

TEST_F(Calibrate, KernelsShorterThanTheirLaunchAreWarnedOf) {
  const auto warned = [&](const std::string& model) {
    return tandem("simulate --cluster DGX-A100 --schedule 1f1b --depth 2 --model " + model).err;
  };
  EXPECT_THAT(warned("gpt2"), HasSubstr("kernels shorter than their launch"));
  EXPECT_EQ(warned("gpt2-xl --microbatch-size 16").find("shorter than their launch"),
            std::string::npos);
}

TEST_F(Calibrate, ConstantsWarnBeyondWhatTheyWereFittedTo) {
  write("rows.csv", fixture("rows.csv"));
  ASSERT_EQ(tandem("calibrate rows.csv --cluster DGX-A100 --dtype fp16 --output fitted.json").code,
            0);
  const Json fitted = Json::parse(read("fitted.json"))["fitted"];
  const auto warnings = [&](const std::string& more) {
    return tandem(
               "simulate --model megatron-7.5b --cluster 4xDGX-A100 --schedule 1f1b "
               "--calibration fitted.json" +
               more)
        .err;
  };
  const std::string within = fmt::format(
      " --depth {} --width 1 --tensor {} --microbatch-size {}", fitted["depth"][1].get<int>(),
      fitted["tensor"][0].get<int>(), fitted["microbatch_size"][0].get<int>());
  EXPECT_EQ(warnings(within).find("fitted to depths"), std::string::npos);
  EXPECT_EQ(warnings(within).find("fitted to tensor degrees"), std::string::npos);
  EXPECT_THAT(warnings(" --depth 1 --width 2 --tensor 16"),
              HasSubstr("the calibration was fitted to tensor degrees from "));
  EXPECT_THAT(warnings(" --depth 24 --width 1"), HasSubstr("fitted to depths from "));
}

TEST_F(Calibrate, ConstantsPriceAModelOnACluster) {
  constexpr std::string_view kConstants =
      R"({{"version": 1, "device": "card", "dtype": "fp16", "attention": "plain",
"constants": {{"product_fraction": 0.5, "product_s": 1e-9, "memory_fraction": 0.8,
"link_fraction": 0.8, "network_fraction": 0.8, "sum_s": 1e-9, "transfer_s": 1e-9,
"launch_s": {}, "unfused_launches": 1, "loss_passes": 1, "batch_s": 1e-9}}}})";
  write("quick.json", fmt::format(kConstants, 1e-9));
  write("slow.json", fmt::format(kConstants, 1e-3));
  const std::string line = "simulate --model gpt2 --cluster DGX-A100 --schedule 1f1b --depth 2";
  const auto rate = [&](const std::string& more) {
    return json_of(line + " --json" + more)["result"]["throughput_samples_per_s"].get<double>();
  };
  EXPECT_LT(rate(" --calibration slow.json"), rate(" --calibration quick.json") / 2);
  // Without it the catalogue's hosts hold devices up, less than these slow ones.
  const double typical = rate(" --product-fraction 0.5 --dtype fp16 --attention plain");
  EXPECT_LT(typical, rate(" --calibration quick.json"));
  EXPECT_GT(typical, rate(" --calibration slow.json"));
  const Json stated = json_of(line + " --json --calibration slow.json")["assumptions"];
  EXPECT_EQ(stated["calibration"]["constants"]["launch_s"], 1e-3);
  EXPECT_EQ(stated["dtype"], "fp16");
  EXPECT_EQ(stated["attention"], "plain");
  EXPECT_THAT(stated["notes"].dump(), HasSubstr(" on card in fp16"));
  EXPECT_EQ(json_of(line + " --json --calibration slow.json --dtype bf16")["assumptions"]["dtype"],
            "bf16");
  const std::string check = "check --model gpt2 --cluster DGX-A100 --schedule 1f1b --depth 2";
  EXPECT_EQ(tandem(check + " --calibration slow.json").code, 0);
}

}  // namespace
}  // namespace tandem::testing
