// --kernels and --products: who computes, and that what is trained stays what the reference trains.

#include <cmath>
#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class KernelOptions : public CommandLine {
 protected:
  bool has_onednn() const { return json_of("doctor --json")["result"]["onednn"] != "no"; }
};

TEST_F(KernelOptions, PortableProductsTrainAsTheReferenceDoes) {
  write_plan();
  const Json json = json_of("train plan.json --steps 2 --verify --kernels portable --json");
  EXPECT_TRUE(json["result"]["verified"].get<bool>());
}

TEST_F(KernelOptions, Bfloat16ProductsTrainAsTheReferenceDoesAndNotAsFloatOnesDo) {
  const Json doctor = json_of("doctor --json")["result"];
  if (doctor["bf16_products"] != "yes") {
    GTEST_SKIP() << doctor["bf16_products"];
  }
  write_plan();
  const Json rounded = json_of("train plan.json --steps 3 --verify --products bf16 --json");
  EXPECT_TRUE(rounded["result"]["verified"].get<bool>());
  const Json exact = json_of("train plan.json --steps 3 --json");
  const double loss = rounded["result"]["losses"][2], expected = exact["result"]["losses"][2];
  EXPECT_NE(loss, expected);
  EXPECT_NEAR(loss, expected, 0.01);
}

TEST_F(KernelOptions, ProfileRecordsWhatComputed) {
  write("model.json", kModel);
  const std::string line = "profile --model model.json --repetitions 1 --output profile.json ";
  EXPECT_EQ(json_of(line + "--kernels portable --json")["result"]["kernels"], "portable f32");
}

TEST_F(KernelOptions, RefuseWhatIsNotThere) {
  write_plan();
  if (json_of("doctor --json")["result"]["bf16_products"] != "yes") {
    EXPECT_EQ(tandem("train plan.json --products bf16").code, 5);
  }
  EXPECT_EQ(tandem("train plan.json --kernels mkl").code, 2);
  EXPECT_EQ(tandem("train plan.json --products f16").code, 2);
  if (!has_onednn()) {
    EXPECT_EQ(tandem("train plan.json --kernels onednn").code, 5);
  }
}

}  // namespace
}  // namespace tandem::testing
