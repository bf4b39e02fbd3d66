// tandem compare: of predictions with each other, since those never differ from run to run.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Compare : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    simulate("2bw --forward 1ms --backward 2ms", "a.json");
    simulate("2bw --forward 2ms --backward 4ms", "b.json");
    simulate("2bw --forward 1ms --backward 2ms", "longer.json", 4);
  }
  void simulate(const std::string& what, const std::string& file, int batches = 3) const {
    const Ran ran = tandem(
        fmt::format("simulate --devices 2 --microbatches 4 --batches {} --schedule {} --trace {}",
                    batches, what, file));
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
};

TEST_F(Compare, ATimelineWithItself) {
  const Ran ran = tandem("compare a.json a.json --fail-over 0");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("+0.0 %"));
  const Json json = json_of("compare a.json a.json --json");
  EXPECT_EQ(json["result"]["makespan"]["error_percent"], 0.0);
  EXPECT_EQ(json["result"]["good"], nullptr);
}

TEST_F(Compare, FailsOverAPercentage) {
  const Ran ran = tandem("compare a.json b.json --fail-over 49.5");
  EXPECT_EQ(ran.code, 6);
  EXPECT_THAT(ran.out, HasSubstr("makespan"));
  EXPECT_EQ(tandem("compare a.json b.json --fail-over 50").code, 0);
  EXPECT_EQ(tandem("compare a.json b.json").code, 0);
}

TEST_F(Compare, JsonIsOneObjectAlsoWhenItFails) {
  const Ran ran = tandem("compare a.json b.json --fail-over 10 --json");
  EXPECT_EQ(ran.code, 6);
  EXPECT_EQ(Json::parse(ran.out)["result"]["good"], false);
  EXPECT_EQ(json_of("compare a.json b.json --fail-over 60 --json")["result"]["good"], true);
}

TEST_F(Compare, OtherOpsAreADifference) {
  const Ran ran = tandem("compare longer.json a.json --fail-over 1000");
  EXPECT_EQ(ran.code, 6) << ran.out;
}

TEST_F(Compare, NoOpInCommonIsAMistake) {
  write("c.json", with(read("a.json"), "\"stage\":0", "\"stage\":7"));
  std::string text = read("a.json");
  for (std::size_t at = 0; (at = text.find("\"stage\":", at)) != std::string::npos; at += 8) {
    text.insert(at + 8, "1");
  }
  write("c.json", text);
  expect_refused("compare a.json c.json", 3, "a.json and c.json");
}

TEST_F(Compare, TheWrongWayRoundIsAMistake) {
  ASSERT_EQ(tandem("train plan.json --steps 2 --trace measured.json").code, 0);
  ASSERT_EQ(tandem("simulate plan.json --batches 2 --trace simulated.json").code, 0);
  EXPECT_EQ(tandem("compare simulated.json measured.json").code, 0);
  EXPECT_EQ(tandem("compare measured.json simulated.json").code, 3);
}

}  // namespace
}  // namespace tandem::testing
