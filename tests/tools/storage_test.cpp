// --storage bf16 before any GPU: whose memory is counted, and what refuses it.

#include <algorithm>
#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using ::testing::Not;

class StorageOption : public CommandLine {
 protected:
  void SetUp() override { write_plan(); }
  /// Bytes of a class of memory, of the first device.
  static double bytes(const Json& json, const std::string& key) {
    return json["result"]["devices"][0][key].get<double>();
  }
};

TEST_F(StorageOption, CountsAPlansMemoryAsItIsTrained) {
  const Json whole = json_of("check plan.json --json");
  const Ran ran = tandem("check plan.json --json --storage bf16");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json half = Json::parse(ran.out);
  EXPECT_EQ(whole["config"]["storage"], "f32");
  EXPECT_EQ(half["config"]["storage"], "bf16");
  EXPECT_LT(bytes(half, "activations_bytes"), 0.7 * bytes(whole, "activations_bytes"));
  EXPECT_EQ(bytes(half, "weights_bytes"), bytes(whole, "weights_bytes") / 2);
  EXPECT_EQ(bytes(half, "gradients_bytes"), bytes(whole, "gradients_bytes"));
  EXPECT_GT(bytes(half, "optimizer_bytes"), bytes(whole, "optimizer_bytes"));
  const Json simulated = Json::parse(tandem("simulate plan.json --json --storage bf16").out);
  EXPECT_EQ(bytes(simulated, "peak_bytes"), bytes(half, "peak_bytes"));
  EXPECT_THAT(simulated["warnings"].dump(), HasSubstr("--backend cuda"));
}

TEST_F(StorageOption, MakesAPlanThatFloatsDoNotFit) {
  write("profile.json", profile_text());
  const std::string plan = "plan --profile profile.json --devices 2 --global-batch 4 ";
  // The most in which nothing fits.
  long none = 0, some = 1L << 40;
  while (some - none > 1) {
    const long middle = (none + some) / 2;
    const std::string memory = "--memory " + std::to_string(middle) + "B ";
    (tandem(plan + memory + "--schedule gpipe").code == 0 ? some : none) = middle;
  }
  const std::string between = "--memory " + std::to_string(none) + "B ";
  EXPECT_EQ(tandem(plan + between + "--schedule gpipe").code, 4);
  const Ran ran = tandem(plan + between + "--schedule gpipe --storage bf16 --output half.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("--storage bf16"));
  EXPECT_EQ(tandem("check half.json --storage bf16 " + between).code, 0);
  EXPECT_EQ(tandem("check half.json " + between).code, 4);
}

TEST_F(StorageOption, IsRefusedWhereItMakesNoSense) {
  const std::string costs = " --devices 2 --microbatches 2 --forward 1ms --backward 2ms";
  for (const std::string& line :
       {"simulate --schedule gpipe --storage bf16" + costs,
        std::string("check --model gpt2-xl --cluster p3.16xlarge --schedule gpipe --depth 4 "
                    "--storage bf16"),
        std::string("profile --model model.json --output p.json --storage bf16"),
        std::string("check plan.json --storage f16")}) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 2) << line;
    EXPECT_THAT(ran.err, HasSubstr("--storage")) << line;
  }
  EXPECT_THAT(tandem("train plan.json --storage fp8").err, HasSubstr("fp8 is priced"));
}

TEST_F(StorageOption, OfGpusAsksTheProcessorForNothing) {
  const Ran ran = tandem("train plan.json --backend cuda --products bf16 --storage bf16 --steps 1");
  EXPECT_THAT(ran.err, Not(HasSubstr("AVX512")));
  const Ran kernels = tandem("train plan.json --backend cuda --kernels portable");
  EXPECT_EQ(kernels.code, 2);
  EXPECT_THAT(kernels.err, HasSubstr("--kernels"));
}

}  // namespace
}  // namespace tandem::testing
