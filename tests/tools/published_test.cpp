// Published throughputs, each by the command of simulator/measurements.md: within 10 % of a table
// of absolute ones, within 15 % of ratios, and how far off they are where an assumption is another.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Published : public CommandLine {
 protected:
  void SetUp() override {
    write("sheet.json",
          R"({"version": 1, "device": "any", "dtype": "fp16", "attention": "plain", "constants": {
"product_fraction": 0.76, "product_s": 1e-9, "memory_fraction": 0.8, "link_fraction": 0.8,
"network_fraction": 0.8, "sum_s": 1e-9, "transfer_s": 1e-9, "launch_s": 1e-9,
"unfused_launches": 1e-3, "loss_passes": 1, "batch_s": 1e-9}})");
  }
  double figure(const std::string& line, const char* name) const {
    return json_of("simulate --json " + line)["result"][name].get<double>();
  }
  bool fits(const std::string& line) const {
    const Json json = json_of("simulate --json " + line);
    return std::ranges::all_of(json["result"]["devices"],
                               [](const Json& device) { return device["fits"].get<bool>(); });
  }
  double rate(const std::string& line) const { return figure(line, "throughput_samples_per_s"); }
};

// ---- arXiv 2104.04473, table 1 ----

struct Row {
  std::string model;
  int nodes, tensor, depth, batch, microbatch;
  double tflops;
};

// The table does not say which microbatches ran: the fastest of 1, 2, 4, 8 and 16 here.
const std::vector<Row> kRows{
    {"megatron-1.7b", 4, 1, 1, 512, 16, 137},      {"megatron-3.6b", 8, 2, 1, 512, 16, 138},
    {"megatron-7.5b", 16, 4, 1, 512, 16, 142},     {"megatron-18.4b", 32, 8, 1, 1024, 16, 135},
    {"megatron-39.1b", 64, 8, 2, 1536, 4, 138},    {"megatron-76.1b", 128, 8, 4, 1792, 2, 140},
    {"megatron-145.6b", 192, 8, 8, 2304, 2, 148},  {"megatron-310.1b", 240, 8, 16, 2160, 1, 155},
    {"megatron-529.6b", 315, 8, 35, 2520, 1, 163}, {"megatron-1008b", 384, 8, 64, 3072, 1, 163}};

TEST_F(Published, MegatronsThroughputsComeOutWithinTenPercent) {
  const auto options = [](const Row& row) {
    return fmt::format(
        "--model {} --cluster {}xDGX-A100 --tensor {} --depth {} --global-batch {} --schedule 1f1b "
        "--recompute full --attention plain --microbatch-size {}",
        row.model, row.nodes, row.tensor, row.depth, row.batch, row.microbatch);
  };
  const auto off = [&](const Row& row, const std::string& more) {
    return figure(options(row) + more, "flops_per_s_per_device_with_recomputation") /
               (row.tflops * 1e12) -
           1;
  };
  for (const Row& row : kRows) {
    const bool large = row.depth > 2;  // seconds of a plain build
    if (large && kSanitized) continue;
    EXPECT_LT(std::abs(off(row, "")), 0.10) << row.model << " " << off(row, "");
    EXPECT_TRUE(fits(options(row))) << row.model;
    if (large) continue;
    EXPECT_LT(off(row, " --product-fraction 0.5"), -0.10) << row.model;
  }
}

// ---- arXiv 2006.09503, section 5: recomputation of whole stages, as its memory model has it ----

// By data sheets alone: vTrain's loss, which the catalogue's constants are of, takes many passes
// over the logits, and a last stage that long would hide what schedules differ in.
const std::string kServers =
    " --microbatch-size 8 --cut even --transfers blocking --calibration sheet.json";
const std::string kSmall =
    "--model gpt-2.2b --cluster p3.16xlarge --depth 8 --global-batch 64 --recompute stage" +
    kServers;
const std::string kWide =
    "--model gpt-2.2b --cluster 8xp3.16xlarge --depth 8 --global-batch 2048 --recompute stage" +
    kServers;
const std::string kDeep = "--model gpt-3.8b --cluster 8xp3.16xlarge --depth 16" + kServers;

bool near(double ratio, double published) { return std::abs(ratio / published - 1) < 0.15; }

TEST_F(Published, RatiosOfDoubleBufferedWeightsComeOutWithinFifteenPercent) {
  const double two = rate("--schedule 2bw " + kSmall);
  EXPECT_PRED2(near, two / rate("--schedule model-parallel " + kSmall), 6.1);
  EXPECT_PRED2(near, two / rate("--schedule 1f1b " + kSmall), 1.6);
  const auto at_large_batch = [&](const std::string& more) {
    return rate("--schedule 2bw " + kWide + more) / rate("--schedule 1f1b " + kWide + more);
  };
  EXPECT_PRED2(near, at_large_batch(""), 1.15);
  // Neither a pipeline that hides what it sends nor balanced stages are what was measured.
  const std::string hidden = with(kWide, " --transfers blocking", "");
  EXPECT_FALSE(near(rate("--schedule 2bw " + hidden) / rate("--schedule 1f1b " + hidden), 1.15));
  const std::string balanced = with(kSmall, " --cut even", "");
  EXPECT_FALSE(near(
      rate("--schedule 2bw " + balanced) / rate("--schedule model-parallel " + balanced), 6.1));
}

TEST_F(Published, RatiosToGPipeAreThoseOfWhatItsMemoryHolds) {
  const std::string gpipe = "--schedule gpipe --recompute none " + kDeep;
  const std::string at512 = " --global-batch 512", at2048 = " --global-batch 2048";
  // What ran there had all of the memory that a data sheet gives.
  const std::string check = "check --reserve 0 ";
  EXPECT_EQ(tandem(check + gpipe + " --group 4" + at512).code, 0);
  EXPECT_EQ(tandem(check + gpipe + " --group 5" + at512).code, 4);
  EXPECT_EQ(tandem(check + gpipe + at512).code, 4);

  const std::string again = " --recompute stage " + kDeep;
  const double two = rate("--schedule 2bw" + again + at512);
  const double flush = rate("--schedule 1f1b" + again + at512);
  const double held = rate(gpipe + " --group 4" + at512);
  EXPECT_PRED2(near, two / held, 3.2);
  EXPECT_PRED2(near, flush / held, 2.1);
  EXPECT_PRED2(near, rate("--schedule 1f1b" + again + at2048) / rate(gpipe + " --group 4" + at2048),
               3.0);
  // With memory for the whole batch there would be nothing to gain from flush.
  EXPECT_LT(flush / rate(gpipe + at512), 1.0);
  const std::string tensor =
      " --model gpt-3.8b --cluster 8xp3.16xlarge --microbatch-size 8 --calibration sheet.json";
  EXPECT_GE(two / rate("--schedule 1f1b --recompute stage --tensor 16 --depth 1" + tensor + at512),
            10);  // published: 20, by a ring; a tree sends half as much from node to node
}

}  // namespace
}  // namespace tandem::testing
