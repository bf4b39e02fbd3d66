#pragma once
// A step of training of a whole model over any kernels, whose memory a machine holds.

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "core/schedule/schedule.h"
#include "executor/stage/stage.h"
#include "tests/executor/cuda/machines.h"
#include "tests/executor/numbers.h"

namespace tandem::cuda::testing {

inline constexpr std::int32_t kMicrobatchSize = 3;

/// What a step leaves.
template <class T>
struct TrainingStep {
  double loss = 0.0, squares = 0.0;
  std::vector<T> gradients, weights;
};

/// Forward, backward and a clipped step of AdamW of the model as one stage, from the same numbers
/// whatever `K`.
template <class K, class Machine>
TrainingStep<typename K::Wide> train(const ModelSpec& model, Recompute recompute, K kernels,
                                     const Machine& machine) {
  using T = typename K::Scalar;
  using W = typename K::Wide;
  const Stage<K> stage(model, {0, static_cast<std::int32_t>(layers_of(model).size())},
                       kMicrobatchSize, mean_loss_scale(model, kMicrobatchSize, 1), recompute);
  const StageSizes& sizes = stage.sizes();
  const auto size = static_cast<std::size_t>(sizes.parameters);
  std::vector<W> initial(size);
  stage.initialise(initial, 42);
  std::vector<T> stored;
  for (const W weight : initial) stored.push_back(K::rounded(weight));
  const auto data = tandem::testing::random_sample<W>(model, kMicrobatchSize, 10);
  auto tokens = machine.put(data.tokens), targets = machine.put(data.targets);
  auto inputs = machine.put(data.inputs), expected = machine.put(data.expected);
  auto weights = machine.put(stored);
  auto trained = machine.put(initial), gradients = machine.put(std::vector<W>(size));
  auto first = machine.put(std::vector<W>(size)), second = machine.put(std::vector<W>(size));
  auto made = machine.template poisoned<W>(sizes.parameters);
  auto stash = machine.template poisoned<T>(sizes.stash),
       scratch = machine.template poisoned<T>(sizes.scratch);
  auto results = machine.template poisoned<double>(2);
  auto decision = machine.put(std::vector<UpdateDecision>(1));
  double* const loss = results.out().data();
  stage.forward(kernels, {.weights = weights.in(),
                          .sample = {tokens.in(), targets.in(), inputs.in(), expected.in()},
                          .stash = stash.out(),
                          .scratch = scratch.out(),
                          .loss = loss});
  stage.backward(kernels, {.weights = weights.in(),
                           .stash = stash.out(),
                           .scratch = scratch.out(),
                           .gradients = gradients.out()});
  const ElementRange all{0, static_cast<std::int64_t>(size)};
  kernels.sums_of_squares(gradients.in(), std::span(&all, 1), 1.0, results.out().subspan(1));
  kernels.decide(results.in().subspan(1),
                 {.clips = true, .most_norm = 1e-3, .beta1 = 0.9, .beta2 = 0.95}, nullptr,
                 decision.out().data(), {});
  // Large, or a step would show in the last digits alone.
  StepNumbers numbers{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-3};
  numbers.decision = decision.in().data();
  kernels.step(OptimizerKind::adamw,
               {trained.in(), gradients.in(), first.out(), second.out(), made.out()}, numbers);
  const std::vector<double> numbers_made = machine.get(results);
  return {numbers_made[0], numbers_made[1], machine.get(gradients), machine.get(made)};
}

/// `rounds`: numbers were rounded to bfloat16, which must show.
inline void expect_near(const TrainingStep<float>& got, const TrainingStep<double>& expected,
                        bool rounds) {
  const double tolerance = rounds ? 1e-2 : 1e-5;
  EXPECT_NEAR(got.loss, expected.loss, tolerance * expected.loss);
  EXPECT_NEAR(got.squares, expected.squares, 2 * tolerance * expected.squares);
  EXPECT_LT(relative_error(got.gradients, expected.gradients), tolerance);
  EXPECT_LT(relative_error(got.weights, expected.weights), tolerance);
  EXPECT_EQ(relative_error(got.gradients, expected.gradients) > 1e-5, rounds);
}

}  // namespace tandem::cuda::testing
