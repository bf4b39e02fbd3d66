// tandem evaluate and tandem generate.

#include <cmath>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class KeptWeights : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    json_of("train plan.json --steps 6 --learning-rate 0.01 --checkpoint kept --json");
  }
  std::string generated(const std::string& options) const {
    return json_of("generate kept --prompt abc --tokens 8 --json " + options)["result"]["text"];
  }
};

TEST_F(KeptWeights, AreEvaluatedToTheLossThatTrainingReports) {
  const Json trained = json_of(
      "train plan.json --steps 8 --learning-rate 0.01 --resume kept --checkpoint kept "
      "--validate-every 8 --validation-batches 100 --json");
  const Json validated = trained["result"]["validation"][0];
  EXPECT_NEAR(json_of("evaluate kept --samples 100 --json")["result"]["loss"], validated["loss"],
              1e-12);
  const Json result = json_of("evaluate kept --json")["result"];
  EXPECT_NEAR(result["perplexity"], std::exp(result["loss"].get<double>()), 1e-9);
  EXPECT_NEAR(result["bits_per_byte"], result["loss"].get<double>() / std::log(2.0), 1e-12);
  EXPECT_EQ(json_of("evaluate kept --samples 3 --json")["result"]["samples"], 3);
  const Json shorter = json_of("evaluate kept --sequence 8 --json");
  EXPECT_EQ(shorter["config"]["sequence"], 8);
  EXPECT_GT(shorter["result"]["samples"], result["samples"]);
  EXPECT_EQ(tandem("evaluate kept --sequence 17").code, 3);  // it has 16 positions
  EXPECT_EQ(tandem("evaluate plan.json").code, 3);
}

TEST_F(KeptWeights, SayTheSameAtEveryDepth) {
  const Json loss = json_of("evaluate kept --depth 1 --samples 21 --json")["result"]["loss"];
  const std::string text = generated("--depth 1");
  for (const int depth : {2, 3, 4}) {
    const std::string at = fmt::format(" --depth {}", depth);
    EXPECT_EQ(json_of("evaluate kept --samples 21 --json" + at)["result"]["loss"], loss) << depth;
    EXPECT_EQ(generated(at), text) << depth;
  }
  EXPECT_NE(json_of("evaluate kept --depth 1 --samples 20 --json")["result"]["loss"], loss);
  for (const char* depth : {"0", "99"})
    EXPECT_EQ(tandem(fmt::format("evaluate kept --depth {}", depth)).code, 2) << depth;
}

TEST_F(KeptWeights, TakeTheMemoryThatCheckForetells) {
  const double bytes = json_of("check plan.json --json")["result"]["checkpoint_bytes"];
  double files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder() / "kept")) {
    if (file.path().extension() == ".safetensors")
      files += static_cast<double>(std::filesystem::file_size(file));
  }
  // Files have headers, and a tied table once.
  EXPECT_NEAR(bytes / files, 1.0, 0.2);
  EXPECT_THAT(tandem("check plan.json").out, HasSubstr("written from a copy of "));
  const Json priced = json_of("check --model gpt2 --cluster p3.16xlarge --schedule 1f1b --json");
  EXPECT_TRUE(priced["result"]["checkpoint_bytes"].is_null());
}

TEST_F(KeptWeights, GoOnWithATextByTheSeedAlone) {
  const std::string greedy = generated("");
  EXPECT_EQ(greedy.substr(0, 3), "abc");
  EXPECT_EQ(greedy.size(), 11U);
  EXPECT_EQ(generated("--seed 9"), greedy);
  EXPECT_EQ(generated("--temperature 2 --top-k 1"), greedy);
  // Fewer tokens are the beginning of more.
  EXPECT_EQ(tandem("generate kept --prompt abc --tokens 4").out, greedy.substr(0, 7) + "\n");
  const std::string drawn = generated("--temperature 1 --top-k 40");
  EXPECT_EQ(generated("--temperature 1 --top-k 40"), drawn);
  EXPECT_NE(generated("--temperature 1 --top-k 40 --seed 2"), drawn);
  EXPECT_EQ(tandem("generate kept --prompt abc --tokens 14").code, 3);
  EXPECT_EQ(tandem("generate kept").code, 2);
  EXPECT_EQ(tandem({"generate", "kept", "--prompt", ""}).code, 2);
}

}  // namespace
}  // namespace tandem::testing
