#include "executor/stage/optimizer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

using testing::random_numbers;

/// A matrix, which decays, and a vector, which does not.
std::vector<Tensor> two_tensors() {
  std::vector<Tensor> tensors(2);
  tensors[0] = {.name = "matrix", .shape = {3, 4}, .decayed = true};
  tensors[1] = {.name = "vector", .shape = {5}, .offset = 12};
  return tensors;
}

template <class T>
struct Memory {
  explicit Memory(Optimizer optimizer)
      : weights(random_numbers<T>(17, 1)),
        gradients(random_numbers<T>(17, 2)),
        state(static_cast<std::size_t>(17 * optimizer_states(optimizer))) {}
  std::vector<T> weights, gradients, state;
};

class EveryOptimizer : public ::testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer,
                         ::testing::Values(OptimizerKind::sgd, OptimizerKind::momentum,
                                           OptimizerKind::adamw, OptimizerKind::nadam,
                                           OptimizerKind::muon),
                         [](const auto& instance) { return std::string(name(instance.param)); });

/// The published formulas for one number.
struct Formula {
  OptimizerConfig config;
  double first = 0.0, second = 0.0;
  long double product = 1.0L;

  /// As torch.optim.NAdam writes it.
  double nadam_step(double shrunk, double gradient, int number) {
    const auto momentum = [this](int step) {
      const long double decayed = std::pow(0.96L, step * 1.0L * config.momentum_decay);
      return config.nadam_beta1 * (1.0L - 0.5L * decayed);
    };
    product *= momentum(number);
    first = config.nadam_beta1 * first + (1.0 - config.nadam_beta1) * gradient;
    second = config.nadam_beta2 * second + (1.0 - config.nadam_beta2) * gradient * gradient;
    const long double correction = 1.0L - std::pow(1.0L * config.nadam_beta2, number);
    const long double root = std::sqrt(second / correction) + config.epsilon;
    const long double next = momentum(number + 1);
    const long double now = (1.0L - momentum(number)) / (1.0L - product) * gradient / root;
    const long double ahead = next / (1.0L - product * next) * first / root;
    return static_cast<double>(shrunk - config.learning_rate * (now + ahead));
  }

  double step(double weight, double gradient, double decay, int number) {
    const double shrunk = weight - config.learning_rate * decay * weight;
    switch (config.kind) {
      case OptimizerKind::sgd:
        return shrunk - config.learning_rate * gradient;
      case OptimizerKind::momentum:
        first = config.momentum * first + (1.0 - config.momentum) * gradient;
        return shrunk - config.learning_rate * first;
      case OptimizerKind::nadam:
        return nadam_step(shrunk, gradient, number);
      case OptimizerKind::muon:  // of what is no hidden matrix
      case OptimizerKind::adamw:
        break;
    }
    first = config.beta1 * first + (1.0 - config.beta1) * gradient;
    second = config.beta2 * second + (1.0 - config.beta2) * gradient * gradient;
    const double unbiased = first / (1.0 - std::pow(config.beta1, number));
    const double variance = second / (1.0 - std::pow(config.beta2, number));
    return shrunk - config.learning_rate * unbiased / (std::sqrt(variance) + config.epsilon);
  }
};

TEST_P(EveryOptimizer, FollowsItsFormula) {
  const OptimizerConfig config{.kind = GetParam(), .learning_rate = 0.05, .weight_decay = 0.1};
  const std::vector<Tensor> tensors = two_tensors();
  Memory<double> memory(config.kind);
  std::vector<Formula> formulas(17, Formula{.config = config});
  std::vector<double> expected = memory.weights;
  cpu::Kernels<double> kernels;
  // Past the steps that NAdam's product of momenta is made of.
  for (int number = 1; number <= 100; ++number) {
    memory.gradients = random_numbers<double>(17, static_cast<std::uint64_t>(number));
    update(kernels, config, {.number = number}, tensors,
           {.weights = memory.weights,
            .gradients = memory.gradients,
            .state = memory.state,
            .weights_out = memory.weights});
    for (std::size_t i = 0; i < 17; ++i) {
      const double decay = i < 12 ? config.weight_decay : 0.0;
      expected[i] = formulas[i].step(expected[i], memory.gradients[i], decay, number);
      ASSERT_NEAR(memory.weights[i], expected[i], 1e-14) << number << " " << i;
    }
  }
}

TEST_P(EveryOptimizer, WritesTheNextVersionAsInPlaceAndLeavesTheOldAlone) {
  const OptimizerConfig config{.kind = GetParam(), .weight_decay = 0.1};
  const std::vector<Tensor> tensors = two_tensors();
  cpu::Kernels<float> kernels;
  Memory<float> in_place(config.kind), apart(config.kind);
  std::vector<float> next(17);
  update(kernels, config, {.number = 1}, tensors,
         {.weights = in_place.weights,
          .gradients = in_place.gradients,
          .state = in_place.state,
          .weights_out = in_place.weights});
  const std::vector<float> before = apart.weights;
  update(kernels, config, {.number = 1}, tensors,
         {.weights = apart.weights,
          .gradients = apart.gradients,
          .state = apart.state,
          .weights_out = next});
  EXPECT_EQ(next, in_place.weights);
  EXPECT_EQ(apart.state, in_place.state);
  EXPECT_EQ(apart.weights, before);
  EXPECT_NE(next, before);
}

TEST_P(EveryOptimizer, DoesNotKnowHowTensorsAreDividedAmongStages) {
  const OptimizerConfig config{.kind = GetParam(), .weight_decay = 0.1};
  const std::vector<Tensor> tensors = two_tensors();
  cpu::Kernels<float> kernels;
  Memory<float> whole(config.kind);
  const Memory<float> source(config.kind);
  update(kernels, config, {.number = 3}, tensors,
         {.weights = whole.weights,
          .gradients = whole.gradients,
          .state = whole.state,
          .weights_out = whole.weights});
  for (Tensor tensor : tensors) {
    const auto first = static_cast<std::size_t>(tensor.offset);
    const auto size = static_cast<std::size_t>(tensor.size());
    tensor.offset = 0;
    std::vector<float> weights(size),
        state(size * static_cast<std::size_t>(optimizer_states(config.kind)));
    update(kernels, config, {.number = 3}, std::span<const Tensor>(&tensor, 1),
           {.weights = std::span(source.weights).subspan(first, size),
            .gradients = std::span(source.gradients).subspan(first, size),
            .state = state,
            .weights_out = weights});
    EXPECT_TRUE(
        std::equal(weights.begin(), weights.end(),
                   whole.weights.begin() + tensor.offset + static_cast<std::ptrdiff_t>(first)));
  }
}

/// Four steps with planes of what passes read, as `reading` says, beside plain ones: both step the
/// weights alike. After each, `expect` is handed the weights before and after, the planes, and δ.
template <class Expect>
void expect_planes(OptimizerKind kind, const Reading& reading, const Expect& expect) {
  const OptimizerConfig config{.kind = kind, .learning_rate = 0.05, .weight_decay = 0.1};
  const std::vector<Tensor> tensors = two_tensors();
  cpu::Kernels<double> kernels;
  Memory<double> plain(kind), memory(kind);
  std::vector<double> ahead(17), back(17), drift(17);
  UpdateSpans<double> spans{.weights = memory.weights,
                            .gradients = memory.gradients,
                            .state = memory.state,
                            .weights_out = memory.weights,
                            .backward_weights = back};
  if (reading.corrects())
    spans.drift = drift;
  else
    spans.forward_weights = ahead;
  for (int number = 1; number <= 4; ++number) {
    const std::vector<double> before = plain.weights;
    update(kernels, config, {.number = number}, tensors,
           {plain.weights, plain.gradients, plain.state, plain.weights});
    update(kernels, config, {.number = number, .reading = reading}, tensors, spans);
    EXPECT_EQ(memory.weights, plain.weights) << "the weights themselves are stepped as ever";
    EXPECT_EQ(memory.state, plain.state);
    for (const Tensor& tensor : tensors) {
      for (std::int64_t at = tensor.offset; at < tensor.offset + tensor.size(); ++at) {
        const auto i = static_cast<std::size_t>(at);
        expect(tensor, i, before[i], plain.weights[i], ahead[i], back[i], drift[i]);
      }
    }
  }
}

TEST_P(EveryOptimizer, CorrectsWhatItMadeByHowItChangedBefore) {
  std::vector<double> expected(17);
  expect_planes(GetParam(), {.delay = 1.5, .kept = 0.25},
                [&](const Tensor&, std::size_t i, double before, double made, double, double back,
                    double drift) {
                  expected[i] = 0.25 * expected[i] + 0.75 * (made - before);
                  ASSERT_NEAR(drift, expected[i], 1e-15);
                  ASSERT_NEAR(back, made - 1.5 * expected[i], 1e-14);
                });
}

// Decay is no part of the step that is predicted to come again.
TEST_P(EveryOptimizer, PredictsByTheStepThatItMade) {
  expect_planes(GetParam(), {.forward_horizon = 2.5, .backward_horizon = 0.5},
                [&](const Tensor& tensor, std::size_t, double before, double made, double ahead,
                    double back, double) {
                  const double decayed = tensor.decayed ? 0.05 * 0.1 * before : 0.0;
                  const double taken = made - (before - decayed);
                  ASSERT_NEAR(ahead, made + 2.5 * taken, 1e-14);
                  ASSERT_NEAR(back, made + 0.5 * taken, 1e-14);
                });
}

TEST(Optimizer, PredictsNoChangeWhereAStepIsSkipped) {
  const cpu::Kernels<double> kernels;
  const std::vector<double> weights{1.0, 2.0}, gradients{3.0, 4.0};
  std::vector<double> made(2), ahead{5.0, 6.0}, back{7.0, 8.0};
  const UpdateDecision decision{.skip = 1.0};
  kernels.step(OptimizerKind::sgd,
               {.weights = weights,
                .gradient = gradients,
                .weights_out = made,
                .forward_weights = ahead,
                .backward_weights = back},
               {.learning_rate = 1.0,
                .reading = {.forward_horizon = 2.0, .backward_horizon = 1.0},
                .decision = &decision});
  EXPECT_EQ(made, weights);
  EXPECT_EQ(ahead, weights);
  EXPECT_EQ(back, weights);
}

TEST(Optimizer, LeavesACorrectionAloneWhereAStepIsSkipped) {
  const cpu::Kernels<double> kernels;
  const std::vector<double> weights{1.0, 2.0}, gradients{3.0, 4.0};
  std::vector<double> made(2), drift{0.5, 0.25}, corrected{5.0, 6.0};
  const UpdateDecision decision{.skip = 1.0};
  kernels.step(
      OptimizerKind::sgd,
      {.weights = weights,
       .gradient = gradients,
       .weights_out = made,
       .backward_weights = corrected,
       .drift = drift},
      {.learning_rate = 1.0, .reading = {.delay = 2.0, .kept = 0.5}, .decision = &decision});
  EXPECT_EQ(made, weights);
  EXPECT_EQ(drift, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(corrected, (std::vector<double>{5.0, 6.0}));
}

TEST(Optimizer, SgdIsExactOnDyadicNumbers) {
  const OptimizerConfig config{.kind = OptimizerKind::sgd, .learning_rate = 0.25};
  std::vector<Tensor> tensors(1);
  tensors[0] = {.name = "w", .shape = {1, 2}, .decayed = true};
  const std::vector<float> weights{1.5F, -2.0F}, gradients{0.5F, 3.0F};
  std::vector<float> next(2);
  cpu::Kernels<float> kernels;
  update(kernels, config, {.number = 1}, tensors,
         {.weights = weights, .gradients = gradients, .weights_out = next});
  EXPECT_EQ(next, (std::vector<float>{1.375F, -2.75F}));
}

// 1 − μ(t), once the first steps' momenta have multiplied to nothing; arXiv 2505.01099's settings.
TEST(Optimizer, NadamsGradientCountsLessAndLess) {
  const DecideNumbers numbers = moment_numbers({.kind = OptimizerKind::nadam});
  const auto weight = [&](double steps) { return moment_corrections(numbers, steps).slope_weight; };
  EXPECT_NEAR(weight(1), 1.0, 1e-12);
  EXPECT_NEAR(weight(4245), 0.2575, 1e-3);
  EXPECT_NEAR(weight(1e6), 0.01, 1e-12);
  EXPECT_EQ(moment_corrections(moment_numbers({}), 4245).slope_weight, 0.0);
}

TEST(OptimizerDeathTest, AbortsOnStateOfTheWrongSize) {
  const std::vector<Tensor> tensors = two_tensors();
  Memory<float> memory(OptimizerKind::momentum);
  cpu::Kernels<float> kernels;
  EXPECT_DEATH(update(kernels, OptimizerConfig{.kind = OptimizerKind::adamw}, {}, tensors,
                      {.weights = memory.weights,
                       .gradients = memory.gradients,
                       .state = memory.state,
                       .weights_out = memory.weights}),
               "check failed");
}

void expect_parts_to_be_the_whole(const OptimizerConfig& config) {
  const cpu::Kernels<float> kernels;
  Memory<float> whole(config.optimizer()), parts(config.optimizer());
  std::vector<float> made(parts.weights.size());
  for (std::int64_t number = 1; number <= 3; ++number) {
    OptimizerStep step{.number = number, .batch = number, .gradient_scale = 0.3};
    update(kernels, config, step, std::span<const Tensor>(two_tensors()),
           {whole.weights, whole.gradients, whole.state, whole.weights});
    const std::vector<float> before = parts.state;
    step.writes = StepWrites::weights;
    update(kernels, config, step, std::span<const Tensor>(two_tensors()),
           {parts.weights, parts.gradients, parts.state, made});
    EXPECT_EQ(made, whole.weights);
    EXPECT_EQ(parts.state, before);
    step.writes = StepWrites::state;
    update(kernels, config, step, std::span<const Tensor>(two_tensors()),
           {parts.weights, parts.gradients, parts.state, made});
    EXPECT_EQ(made, whole.weights);
    EXPECT_EQ(parts.state, whole.state);
    EXPECT_TRUE(whole.state.empty() || parts.state != before);
    parts.weights = made;
  }
}

TEST_P(EveryOptimizer, StepsWeightsAndStateByThemselvesToTheBitsOfTheWholeStep) {
  for (const DelayCorrection correction :
       {DelayCorrection::none, DelayCorrection::error_feedback_with_decay}) {
    SCOPED_TRACE(name(correction));
    expect_parts_to_be_the_whole(
        {.kind = GetParam(), .correction = correction, .learning_rate = 0.1, .weight_decay = 0.2});
  }
}

}  // namespace
}  // namespace tandem
