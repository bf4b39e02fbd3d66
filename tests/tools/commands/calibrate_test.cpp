// Measured iterations become constants, and these prices of a model on a cluster.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

constexpr std::string_view kColumnNames =
    "blocks,hidden,heads,sequence,tensor,width,depth,microbatch_size,global_batch,time_ms\n";

/// 48 rows that a sum explains: 2 ms a block and a turn, a millisecond for each sample, 5 ms.
std::string rows() {
  std::string text(kColumnNames);
  for (const int tensor : {1, 2}) {
    for (const int depth : {1, 2}) {
      for (const int blocks : {4, 8}) {
        for (const int size : {1, 2, 4}) {
          for (const int microbatches : {4, 8}) {
            const double turns = microbatches + depth - 1.0;
            const double ms = 5.0 + turns * blocks / depth * (2.0 + 1.0 * size * 8 / 4 / tensor);
            text += fmt::format("{},1024,16,512,{},1,{},{},{},{}\n", blocks, tensor, depth, size,
                                microbatches * size, ms);
          }
        }
      }
    }
  }
  return text;
}

class Calibrate : public CommandLine {};

TEST_F(Calibrate, RowsBecomeConstantsAndAnErrorTable) {
  write("rows.csv", rows());
  const std::string line = "calibrate rows.csv --cluster DGX-A100 --dtype fp16";
  const Ran ran = tandem(line + " --output fitted.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith("48 iterations of rows.csv on A100-SXM4-80GB, fp16, plain "
                                  "attention\n\nproduct_fraction "));
  EXPECT_THAT(ran.out, HasSubstr("\neach half, by 24 others "));
  EXPECT_THAT(ran.out, HasSubstr("\n  tensor 2 "));
  EXPECT_THAT(ran.out, HasSubstr("\n  depth 2 "));
  EXPECT_THAT(ran.out, HasSubstr("\nthose with pipelines, by 24 others "));
  EXPECT_THAT(ran.out, HasSubstr("\nhalf of them, seen, but all times shuffled "));
  EXPECT_EQ(tandem(line).out, ran.out);
  EXPECT_NE(tandem(line + " --seed 2").out, ran.out);

  const Json result = json_of(line + " --json")["result"];
  EXPECT_EQ(result["calibration"], Json::parse(read("fitted.json")));
  EXPECT_EQ(result["halves"]["rows"], 48);
  EXPECT_LT(result["halves"]["mean_error"].get<double>(), 0.1);
  EXPECT_GT(result["halves"]["shuffled_mean_error"].get<double>(), 0.2);
  EXPECT_EQ(result["pipelines"]["fitted_to"], 24);
}

TEST_F(Calibrate, ConstantsPriceAModelOnACluster) {
  constexpr std::string_view kConstants =
      R"({{"version": 1, "device": "card", "dtype": "fp16", "attention": "plain",
"constants": {{"product_fraction": 0.5, "product_s": 1e-9, "memory_fraction": 0.8,
"link_fraction": 0.8, "sum_s": 1e-9, "transfer_s": 1e-9, "launch_s": {}, "unfused_launches": 1,
"loss_passes": 1, "batch_s": 1e-9}}}})";
  write("quick.json", fmt::format(kConstants, 1e-9));
  write("slow.json", fmt::format(kConstants, 1e-3));
  const std::string line = "simulate --model gpt2 --cluster DGX-A100 --schedule 1f1b --depth 2";
  const auto rate = [&](const std::string& more) {
    return json_of(line + " --json" + more)["result"]["throughput_samples_per_s"].get<double>();
  };
  EXPECT_LT(rate(" --calibration slow.json"), rate(" --calibration quick.json") / 2);
  // What the file does not say otherwise is as without it.
  EXPECT_NEAR(rate(" --calibration quick.json") /
                  rate(" --product-fraction 0.5 --dtype fp16 --attention plain"),
              1.0, 1e-3);
  const Json stated = json_of(line + " --json --calibration slow.json")["assumptions"];
  EXPECT_EQ(stated["calibration"]["constants"]["launch_s"], 1e-3);
  EXPECT_EQ(stated["dtype"], "fp16");
  EXPECT_EQ(stated["attention"], "plain");
  EXPECT_THAT(
      stated["notes"].dump(),
      HasSubstr("1e+03 us of the host for a kernel: constants fitted to iterations on card"));
  EXPECT_EQ(json_of(line + " --json --calibration slow.json --dtype bf16")["assumptions"]["dtype"],
            "bf16");
  const std::string check = "check --model gpt2 --cluster DGX-A100 --schedule 1f1b --depth 2";
  EXPECT_EQ(tandem(check + " --calibration slow.json").code, 0);
}

TEST_F(Calibrate, WhatSaysTooLittleOrTooMuchIsRefused) {
  write("short.csv", std::string(kColumnNames) + "4,64,4,64,1,1,1,1,4,5\n");
  expect_error("calibrate short.csv --cluster DGX-A100", 3,
               "error: short.csv: 1 rows: expected at least 40, half of them to fit 10 constants");
  expect_error("calibrate short.csv", 2,
               "error: tandem calibrate: --cluster is missing: nodes of the catalogue, such as "
               "4xDGX-H100, or a file");
  EXPECT_EQ(tandem("calibrate absent.csv --cluster DGX-A100").code, 3);
  const std::string line =
      "simulate --model gpt2 --cluster DGX-A100 --schedule 1f1b --calibration absent.json";
  expect_error(line + " --link-fraction 0.5", 2,
               "error: tandem simulate: the calibration says --link-fraction already");
  expect_error(line + " --contention", 2,
               "error: tandem simulate: --contention knows links alone, not a --calibration: give "
               "one");
  EXPECT_EQ(tandem(line).code, 3);
  expect_error(
      "simulate --schedule 2bw --devices 2 --microbatches 2 --forward 1ms --backward 1ms "
      "--calibration absent.json",
      2, "error: tandem simulate: --calibration is for a --model on a --cluster");
}

}  // namespace
}  // namespace tandem::testing
