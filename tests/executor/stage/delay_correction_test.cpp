// What error feedback makes of gradients that are one update late, by the optimizer's own steps in
// a loop. Sources: arXiv 2606.30634; the numbers are derived from its rule.

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/stage/optimizer.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

using testing::random_numbers;

constexpr std::initializer_list kCorrections{DelayCorrection::error_feedback,
                                             DelayCorrection::error_feedback_with_decay};

/// Weights that are stepped with gradients given from outside. All of them decay.
struct Stepped {
  OptimizerConfig config;
  std::vector<double> weights;
  std::vector<Tensor> tensors = {{.name = "w",
                                  .shape = {1, static_cast<std::int64_t>(weights.size())},
                                  .decayed = true,
                                  .hidden = true}};
  std::vector<double> state = std::vector<double>(
      static_cast<std::size_t>(StateLayout(config.optimizer(), tensors).size()));
  std::vector<double> scratch = std::vector<double>(
      static_cast<std::size_t>(update_scratch<double, double>(config.kind, tensors)));
  std::int64_t steps = 0;

  void step(const std::vector<double>& gradients) {
    cpu::Kernels<double> kernels;
    ++steps;
    update(kernels, config, {.number = steps, .batch = steps}, std::span<const Tensor>(tensors),
           {.weights = weights,
            .gradients = gradients,
            .state = state,
            .weights_out = weights,
            .scratch = scratch});
  }
};

/// What a gradient is of: the weights that it steps, or those one step before, as 2BW's are.
enum class GradientTime { now, one_step_late };

/// Weights from all ones on, whose element i has the loss curvature[i]/2 · x².
class Descent {
 public:
  Descent(const OptimizerConfig& config, std::vector<double> curvature, GradientTime time)
      : curvature_(std::move(curvature)),
        at_{.config = config, .weights = std::vector<double>(curvature_.size(), 1.0)},
        time_(time),
        seen_(at_.weights) {}

  const std::vector<double>& weights() const { return at_.weights; }

  void step() {
    std::vector<double> gradients;
    if (time_ == GradientTime::now) seen_ = at_.weights;
    for (std::size_t i = 0; i < seen_.size(); ++i) gradients.push_back(curvature_[i] * seen_[i]);
    seen_ = at_.weights;
    at_.step(gradients);
  }

 private:
  std::vector<double> curvature_;
  Stepped at_;
  GradientTime time_;
  std::vector<double> seen_;  // that the next gradient is of
};

std::vector<double> descent(const OptimizerConfig& config) {
  Descent descent(config, {1.0}, GradientTime::one_step_late);
  std::vector<double> values{1.0};
  while (values.size() < 5) {
    descent.step();
    values.push_back(descent.weights()[0]);
  }
  return values;
}

// x²/2 from 1 at a rate of 1/4: exact in binary.
TEST(DelayCorrection, FollowsItsRuleToTheBit) {
  OptimizerConfig config{.kind = OptimizerKind::sgd, .learning_rate = 0.25};
  EXPECT_EQ(descent(config), (std::vector{1.0, 3.0 / 4, 1.0 / 2, 5.0 / 16, 3.0 / 16}));
  for (const DelayCorrection correction : kCorrections) {
    config.correction = correction;
    EXPECT_EQ(descent(config), (std::vector{1.0, 3.0 / 4, 1.0 / 2, 3.0 / 8, 5.0 / 16}));
  }
}

OptimizerConfig with_momentum(double momentum, DelayCorrection correction) {
  return {.kind = momentum == 0.0 ? OptimizerKind::sgd : OptimizerKind::momentum,
          .correction = correction,
          .learning_rate = 1.0,
          .momentum = momentum};
}

/// Of each curvature, whether descent at a rate of 1 shrinks its weight in the long run.
std::vector<bool> converges(const OptimizerConfig& config, const std::vector<double>& curvature,
                            GradientTime time = GradientTime::one_step_late) {
  constexpr int kSteps = 8000, kWindow = 1000;
  Descent descent(config, curvature, time);
  std::vector<double> early(curvature.size()), late(curvature.size());
  for (int step = 0; step < kSteps; ++step) {
    descent.step();
    std::vector<double>* const window = step < kWindow             ? &early
                                        : step >= kSteps - kWindow ? &late
                                                                   : nullptr;
    if (window == nullptr) continue;
    for (std::size_t i = 0; i < curvature.size(); ++i) {
      const double size = std::abs(descent.weights()[i]);
      (*window)[i] = std::isfinite(size) ? std::max((*window)[i], size) : HUGE_VAL;
    }
  }
  std::vector<bool> shrank;
  for (std::size_t i = 0; i < curvature.size(); ++i) shrank.push_back(late[i] < early[i]);
  return shrank;
}

struct StabilityLimit {
  double momentum, in_time, delayed, corrected;  // the largest curvature at a rate of 1
};

TEST(DelayCorrection, MovesTheLimitOfStability) {
  for (const auto& [momentum, in_time, delayed, corrected] :
       {StabilityLimit{0.0, 2.0, 1.0, 0.618}, StabilityLimit{0.9, 38.0, 1.0, 2.70},
        StabilityLimit{0.95, 78.0, 1.0, 4.00}, StabilityLimit{0.99, 398.0, 1.0, 9.51}}) {
    const auto around = [](double limit) { return std::vector{0.99 * limit, 1.01 * limit}; };
    const std::vector<bool> within_one_percent{true, false};
    EXPECT_EQ(
        converges(with_momentum(momentum, DelayCorrection::error_feedback), around(corrected)),
        within_one_percent)
        << momentum;
    const OptimizerConfig plain = with_momentum(momentum, DelayCorrection::none);
    EXPECT_EQ(converges(plain, around(delayed)), within_one_percent) << momentum;
    EXPECT_EQ(converges(plain, around(in_time), GradientTime::now), within_one_percent) << momentum;
    // Each limit is that of its own delay.
    EXPECT_EQ(converges(plain, around(in_time)), (std::vector{false, false})) << momentum;
    EXPECT_EQ(converges(plain, around(delayed), GradientTime::now), (std::vector{true, true}))
        << momentum;
  }
}

/// The greatest distance, over 30 steps on random gradients with a rate that changes, between the
/// weights and z − u: z are weights that take plain steps u, and u is the last of them. `decay` of
/// z's steps is taken of the weights that the gradients are of.
double distance_to_prediction(OptimizerConfig config) {
  constexpr std::int64_t kSize = 5;
  config.schedule = {.kind = LearningRateKind::linear, .warmup = 7, .total = 30};
  Stepped corrected{.config = config, .weights = random_numbers<double>(kSize, 1)};
  config.correction = DelayCorrection::none;
  Stepped plain{.config = config, .weights = corrected.weights};
  std::vector<double> predicted, ahead;  // x = z − u, and z
  double most = 0.0;
  for (int step = 0; step < 30; ++step) {
    const auto gradients = random_numbers<double>(kSize, static_cast<std::uint64_t>(100 + step));
    const std::vector<double> before = corrected.weights;
    plain.weights = before;  // the optimizer's whole step at the weights that are stepped
    plain.step(gradients);
    corrected.step(gradients);
    if (step == 0) {  // as if the step before had been the same
      for (std::size_t i = 0; i < before.size(); ++i)
        ahead.push_back(before[i] + (before[i] - plain.weights[i]));
    }
    predicted.clear();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double u = before[i] - plain.weights[i];
      ahead[i] -= u;
      predicted.push_back(ahead[i] - u);
      most = std::max(most, std::abs(predicted[i] - corrected.weights[i]));
    }
  }
  return most;
}

// x(t+1) = x(t) − 2u(t) + u(t−1) is z(t+1) = z(t) − u(t) with passes at x = z − u, the last step.
TEST(DelayCorrection, IsPredictionByTheLastStep) {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw, OptimizerKind::nadam,
        OptimizerKind::muon}) {
    OptimizerConfig config{.kind = kind,
                           .correction = DelayCorrection::error_feedback_with_decay,
                           .learning_rate = 0.1,
                           .weight_decay = 0.2};
    EXPECT_LT(distance_to_prediction(config), 1e-12) << name(kind);
    // With decay apart from the step, only without decay.
    config.correction = DelayCorrection::error_feedback;
    EXPECT_GT(distance_to_prediction(config), 1e-3) << name(kind);
    config.weight_decay = 0.0;
    EXPECT_LT(distance_to_prediction(config), 1e-12) << name(kind);
    config.weight_decay = 0.2;
    config.correction = DelayCorrection::none;
    EXPECT_GT(distance_to_prediction(config), 1e-3) << name(kind);
  }
}

// W ← (1 − ηλ)W first, whatever the steps were.
TEST(DelayCorrection, LeavesDecayApart) {
  OptimizerConfig config{.kind = OptimizerKind::sgd,
                         .correction = DelayCorrection::error_feedback,
                         .learning_rate = 0.5,
                         .weight_decay = 0.25};
  Stepped apart{.config = config, .weights = {8.0}};
  apart.step({2.0});
  EXPECT_EQ(apart.weights[0], 8.0 * 0.875 - 1.0);
  apart.step({4.0});
  EXPECT_EQ(apart.weights[0], 6.0 * 0.875 - 2 * 2.0 + 1.0);
  config.correction = DelayCorrection::error_feedback_with_decay;
  Stepped within{.config = config, .weights = {8.0}};
  within.step({2.0});
  EXPECT_EQ(within.weights[0], 6.0);
  within.step({4.0});
  EXPECT_EQ(within.weights[0], 6.0 - 2 * (2.0 + 0.75) + (1.0 + 1.0));
}

// A step that is skipped leaves the step before as it is, and the first is still to come.
TEST(DelayCorrection, SkippedStepsLeaveTheStepBefore) {
  const OptimizerConfig config{.kind = OptimizerKind::sgd,
                               .correction = DelayCorrection::error_feedback,
                               .learning_rate = 0.5};
  std::vector<Tensor> tensors(1);
  tensors[0] = {.name = "w", .shape = {1}};
  cpu::Kernels<double> kernels;
  std::vector<double> weight{8.0}, state{0.0};
  UpdateDecision decision;
  const auto step = [&](double gradient, double square) {
    const std::vector<double> squares{square}, gradients{gradient};
    const UpdateDecision before = decision;
    kernels.decide(squares, {}, &before, &decision, {});
    update(kernels, config, {.decision = &decision}, std::span<const Tensor>(tensors),
           {.weights = weight, .gradients = gradients, .state = state, .weights_out = weight});
    return weight[0];
  };
  EXPECT_EQ(step(5.0, HUGE_VAL), 8.0);
  EXPECT_EQ(state[0], 0.0);
  EXPECT_EQ(step(2.0, 4.0), 7.0);
  EXPECT_EQ(step(5.0, HUGE_VAL), 7.0);
  EXPECT_EQ(state[0], 1.0);
  EXPECT_EQ(step(4.0, 16.0), 7.0 - 2 * 2.0 + 1.0);
}

}  // namespace
}  // namespace tandem
