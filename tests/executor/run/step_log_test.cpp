#include "executor/run/step_log.h"

#include <array>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace tandem {
namespace {

using std::chrono::milliseconds;

std::chrono::steady_clock::time_point at(int ms) {
  return std::chrono::steady_clock::time_point{} + milliseconds(ms);
}

// A GPU's host hears of several at once.
TEST(StepLog, AStepEndsWhenTheDevicesHadMadeIt) {
  std::vector<StepReport> steps;
  StepLog log(2, 1, 2, [&](const StepReport& step) { steps.push_back(step); });
  const std::array squares{9.0, 16.0};
  log.add_loss(1, 4.0, at(20));
  log.add_loss(0, 2.0, at(10));
  log.add_loss(2, 1.0, at(70));
  EXPECT_TRUE(steps.empty());
  log.add_update(1, 0, {.squares = squares, .at = at(60)});
  EXPECT_TRUE(steps.empty());
  log.add_update(0, 0, {.squares = squares, .skipped = true, .at = at(30)});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].loss, 3.0);
  EXPECT_EQ(steps[0].gradient_norm, 5.0);
  EXPECT_TRUE(steps[0].skipped);
  EXPECT_EQ(steps[0].losses_at, at(20));
  EXPECT_EQ(steps[0].at, at(30));
  log.add_loss(3, 1.0, at(80));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_FALSE(steps[1].skipped);
  EXPECT_EQ(steps[1].at, at(80));
}

}  // namespace
}  // namespace tandem
