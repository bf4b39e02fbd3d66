// What train takes besides a plan: learning rates, recomputation.

#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Train : public CommandLine {
 protected:
  void SetUp() override { write_plan(); }
  Json losses(const std::string& options) const {
    return json_of("train plan.json --json " + options)["result"]["losses"];
  }
};

TEST_F(Train, TakesALearningRateSchedule) {
  const Json constant = losses("--steps 5");
  for (const std::string schedule : {"linear", "cosine", "wsd --decay-steps 3"}) {
    const std::string options = "--steps 5 --warmup 1 --lr-schedule " + schedule;
    EXPECT_NE(losses(options), constant) << schedule;
    EXPECT_EQ(losses(options + " --verify"), losses(options + " --reference")) << schedule;
  }
  EXPECT_EQ(losses("--steps 5 --lr-schedule constant"), constant);
  EXPECT_EQ(losses("--steps 5 --lr-schedule linear --min-learning-rate 5e-4"), constant)
      << "down to where it began";
}

TEST_F(Train, RefusesWhatALearningRateScheduleDoesNotRead) {
  const std::string train = "train plan.json --steps 5 ";
  expect_error(train + "--decay-steps 2", 2,
               "error: tandem train: --lr-schedule constant does not read --decay-steps");
  expect_error(train + "--lr-schedule cosine --decay-steps 2", 2,
               "error: tandem train: --lr-schedule cosine does not read --decay-steps");
  expect_error(train + "--min-learning-rate 0", 2,
               "error: tandem train: --lr-schedule constant does not read --min-learning-rate");
  expect_error(train + "--lr-schedule cos", 2,
               "error: tandem train: --lr-schedule: expected constant|linear|cosine|wsd, found "
               "\"cos\"; did you mean \"cosine\"?");
  expect_error(train + "--warmup 6", 2,
               "error: tandem train: --warmup: expected an integer from 0 to 5, found \"6\"");
  expect_error(train + "--lr-schedule wsd --warmup 4 --decay-steps 2", 2,
               "error: tandem train: --decay-steps: expected an integer from 0 to 1, found \"2\"");
  EXPECT_EQ(tandem(train + "--lr-schedule linear --min-learning-rate 1").code, 2)
      << "above the learning rate";
}

TEST_F(Train, RecomputesSelectivelyToTheSameBitsInLessMemory) {
  const Json plain = json_of("train plan.json --steps 3 --verify --json");
  write_plan(with(plan_text(), R"("recompute": "none")", R"("recompute": "selective")"));
  const Json selective = json_of("train plan.json --steps 3 --verify --json");
  EXPECT_EQ(selective["result"]["losses"], plain["result"]["losses"]);
  for (const std::size_t device : {0u, 1u}) {
    const Json& less = selective["result"]["memory"][device];
    EXPECT_EQ(less["equal"], true);
    if (device == 0) {  // two stashes and one scratch; the last stage holds one of each
      EXPECT_LT(less["high_water_bytes"], plain["result"]["memory"][device]["high_water_bytes"]);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
