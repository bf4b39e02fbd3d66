// Rates against the closed forms of their schedules.

#include "executor/stage/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace tandem {
namespace {

std::vector<double> rates(const LearningRateSchedule& schedule, double peak, std::int64_t updates) {
  std::vector<double> all;
  for (std::int64_t number = 1; number <= updates; ++number) {
    all.push_back(learning_rate_at(schedule, peak, number));
  }
  return all;
}

TEST(LearningRate, IsThePeakAllAlongByDefault) {
  EXPECT_EQ(rates({}, 0.25, 3), std::vector<double>({0.25, 0.25, 0.25}));
}

TEST(LearningRate, WarmsUpInEqualStepsToThePeak) {
  for (const LearningRateKind kind : {LearningRateKind::constant, LearningRateKind::linear,
                                      LearningRateKind::cosine, LearningRateKind::wsd}) {
    const auto all = rates({.kind = kind, .warmup = 4, .total = 12, .decay = 2}, 1.0, 5);
    EXPECT_EQ(all, std::vector<double>({0.25, 0.5, 0.75, 1.0, 1.0})) << name(kind);
  }
}

TEST(LearningRate, IsDividedByTheDelayOfAStageLessAndLess) {
  const LearningRateSchedule schedule{.annealing = 4};
  for (std::int64_t number = 1; number <= 6; ++number) {
    const double left = 1.0 - std::min(static_cast<double>(number - 1) / 4.0, 1.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, number, 3.0), std::pow(3.0, -left));
    // A mean delay below an update would raise the rate.
    for (const double delay : {0.0, 0.5, 1.0})
      EXPECT_EQ(learning_rate_at(schedule, 1.0, number, delay), 1.0);
  }
  EXPECT_EQ(learning_rate_at(schedule, 1.0, 1, 2.0), 0.5);
  EXPECT_EQ(learning_rate_at(schedule, 1.0, 5, 2.0), 1.0);
  EXPECT_EQ(learning_rate_at({}, 1.0, 1, 2.0), 1.0) << "where none is asked for";
  EXPECT_EQ(learning_rate_at({.warmup = 2, .annealing = 4}, 1.0, 1, 2.0), 0.25) << "warm-up first";
}

TEST(LearningRate, FallsAlongALine) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::linear, .warmup = 2, .total = 6, .least = 0.5};
  EXPECT_EQ(rates(schedule, 1.0, 8),
            std::vector<double>({0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.5}));
}

TEST(LearningRate, FallsAlongHalfACosine) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::cosine, .warmup = 10, .total = 110, .least = 0.1};
  for (std::int64_t number = 11; number <= 110; ++number) {
    const double angle = std::numbers::pi * static_cast<double>(number - 11) / 100.0;
    EXPECT_NEAR(learning_rate_at(schedule, 1.0, number), 0.1 + 0.45 * (1.0 + std::cos(angle)),
                1e-15);
  }
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, 61), 0.55, 1e-15) << "half way down";
  EXPECT_EQ(learning_rate_at(schedule, 1.0, 111), 0.1);
}

TEST(LearningRate, StaysAtThePeakUntilItsDecay) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::wsd, .warmup = 1, .total = 10, .decay = 4, .least = 0.0};
  for (std::int64_t number = 1; number <= 7; ++number) {
    EXPECT_EQ(learning_rate_at(schedule, 2.0, number), 2.0) << number;
  }
  EXPECT_EQ(learning_rate_at(schedule, 2.0, 8), 1.0) << "a quarter of the decay: 1 − √(1/4)";
  EXPECT_NEAR(learning_rate_at(schedule, 2.0, 10), 2.0 * (1.0 - std::sqrt(0.75)), 1e-15);
  EXPECT_EQ(learning_rate_at(schedule, 2.0, 11), 0.0);
}

TEST(LearningRate, OfNoDecayFallsAfterTheRunOnly) {
  const LearningRateSchedule schedule{
      .kind = LearningRateKind::wsd, .warmup = 0, .total = 3, .decay = 0, .least = 0.5};
  EXPECT_EQ(rates(schedule, 1.0, 4), std::vector<double>({1.0, 1.0, 1.0, 0.5}));
}

TEST(LearningRateDeathTest, CountsUpdatesFromOne) {
  EXPECT_DEATH(learning_rate_at({}, 1.0, 0), "number");
}

/// Weights by name after one update of plain gradient descent.
std::map<std::string, std::vector<double>> weights_after(std::int64_t updates,
                                                         const OptimizerConfig& optimizer) {
  testing::TrainingCase test;
  test.optimizer = optimizer;
  const Data data = testing::data_of(test);
  Reference<cpu::Kernels<double>> reference(test.model,
                                            {.optimizer = test.optimizer,
                                             .microbatches = test.microbatches,
                                             .microbatch_size = test.microbatch_size,
                                             .seed = test.seed},
                                            data);
  for (std::int64_t i = 0; i < updates; ++i) reference.step();
  return reference.state().weights;
}

TEST(LearningRate, OfTheSecondUpdateIsWhatTheOptimizerUses) {
  const OptimizerConfig flat{.kind = OptimizerKind::sgd, .learning_rate = 0.5};
  OptimizerConfig rising{.kind = OptimizerKind::sgd, .learning_rate = 1.0};
  rising.schedule.warmup = 2;
  EXPECT_EQ(weights_after(1, rising), weights_after(1, flat));
  EXPECT_NE(weights_after(2, rising), weights_after(2, flat));
}

}  // namespace
}  // namespace tandem
