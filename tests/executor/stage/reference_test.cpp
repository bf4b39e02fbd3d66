// The oracle itself: checked against hand-written arithmetic, against the rule of 2BW, and for
// being able to tell semantics apart.

#include "executor/stage/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/stage/reference_stages.h"
#include "executor/stage/stage.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

template <class T>
using ReferenceOf = Reference<cpu::Kernels<T>>;

ModelSpec small_gpt(bool tied = true) {
  ModelSpec model = testing::tiny_gpt(tied);
  model.vocabulary = 256;
  model.width = 16;
  model.sequence = 16;
  return model;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <class T>
double distance(const ReferenceState<T>& a, const ReferenceState<T>& b) {
  double sum = 0.0;
  for (const auto& [name, values] : a.weights) {
    const std::vector<T>& others = b.weights.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += std::pow(static_cast<double>(values[i]) - static_cast<double>(others[i]), 2);
    }
  }
  return std::sqrt(sum);
}

TEST(Reference, LearnsTheShippedText) {
  const ModelSpec model = small_gpt();
  const Data data(model, 4, 1);
  ReferenceOf<float> reference(
      model, {.optimizer = {.learning_rate = 1e-2}, .microbatches = 2, .microbatch_size = 4}, data);
  const double first = mean(reference.step().losses);
  EXPECT_NEAR(first, std::log(256.0), 0.1);
  while (reference.state().batches < 20) {
    reference.step();
  }
  EXPECT_LT(mean(reference.state().losses), first - 1.5);
}

TEST(Reference, RepeatsItselfBitForBit) {
  const ModelSpec model = small_gpt();
  const Data data(model, 2, 1);
  const ReferenceConfig config{
      .semantics = WeightSemantics::delayed_by_one, .microbatches = 2, .microbatch_size = 2};
  ReferenceOf<float> one(model, config, data), two(model, config, data);
  for (int i = 0; i < 3; ++i) {
    const ReferenceState<float>& a = one.step();
    const ReferenceState<float>& b = two.step();
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.optimizer, b.optimizer);
    EXPECT_EQ(a.losses, b.losses);
  }
}

TEST(Reference, DelayedStepsUseThePreviousVersion) {
  const ModelSpec model = small_gpt();
  const Data data(model, 2, 1);
  ReferenceConfig config{.microbatches = 2, .microbatch_size = 2};
  ReferenceOf<double> vanilla(model, config, data);
  config.semantics = WeightSemantics::delayed_by_one;
  ReferenceOf<double> delayed(model, config, data);
  EXPECT_EQ(vanilla.step().weights, delayed.step().weights);  // Both from W(0).
  const std::vector<double> vanilla_losses = vanilla.step().losses;
  EXPECT_NE(vanilla_losses, delayed.step().losses);  // W(1) and W(0).
  EXPECT_GT(distance(vanilla.state(), delayed.state()), 1e-3);
}

// Facts of PipeDream: stage s of p uses weights p − 1 − s updates old.
TEST(ReferenceStages, AreAsStaleAsThePaperSays) {
  ScheduleRequest request{.devices = 4, .microbatches = 4, .replicas = {1, 1, 1, 1}};
  const Schedule schedule = make_schedule(find_schedule("pipedream"), request);
  const std::vector<LayerRange> layers{{0, 1}, {1, 3}, {3, 4}, {4, 6}};
  const auto stages = reference_stages(schedule, layers, WeightSemantics::stashed);
  request.vertical_sync = true;
  const auto synchronous = reference_stages(make_schedule(find_schedule("pipedream"), request),
                                            layers, WeightSemantics::stashed);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    EXPECT_THAT(stages[s].staleness, ::testing::Each(3 - static_cast<std::int32_t>(s)));
    EXPECT_THAT(synchronous[s].staleness, ::testing::Each(3));
    EXPECT_EQ(stages[s].microbatches, 1);
    EXPECT_EQ(stages[s].layers, layers[s]);
  }
}

TEST(Reference, KeepsATiedTableOneTable) {
  for (const bool tied : {true, false}) {
    const ModelSpec model = small_gpt(tied);
    const Data data(model, 2, 1);
    ReferenceOf<float> reference(model, {.microbatches = 1, .microbatch_size = 2}, data);
    reference.step();
    const ReferenceState<float>& state = reference.step();
    EXPECT_EQ(state.weights.at(kTokenTable) == state.weights.at(kHeadTable), tied);
    EXPECT_EQ(state.optimizer.at(kTokenTable) == state.optimizer.at(kHeadTable), tied);
  }
}

// The stage's gradients are checked against differences, so the reference's step is, too.
TEST(Reference, StepsAgainstTheGradientOfAWholeStage) {
  const ModelSpec model = small_gpt();
  const Data data(model, 2, 1);
  const OptimizerConfig sgd{.kind = OptimizerKind::sgd, .learning_rate = 1.0};
  ReferenceOf<double> reference(model, {.optimizer = sgd, .microbatch_size = 2, .seed = 3}, data);
  const auto before = reference.state().weights;
  const auto& after = reference.step().weights;

  const Stage<cpu::Kernels<double>> stage(model, {0, 6}, 2, mean_loss_scale(model, 2, 1));
  cpu::Kernels<double> kernels;
  const auto zeros = [](std::int64_t size) {
    return std::vector<double>(static_cast<std::size_t>(size));
  };
  std::vector<double> weights = zeros(stage.sizes().parameters), gradients = weights,
                      stash = zeros(stage.sizes().stash), scratch = zeros(stage.sizes().scratch);
  Sample<double> sample;
  data.fill(0, sample);
  stage.initialise(weights, 3);
  stage.forward(kernels, {.weights = weights, .sample = &sample, .stash = stash});
  stage.backward(kernels,
                 {.weights = weights, .stash = stash, .scratch = scratch, .gradients = gradients});
  const auto head = static_cast<std::size_t>(stage.tied().head.value().first);
  for (const Tensor& tensor : stage.parameters()) {
    if (tensor.name == kHeadTable) {
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.size()); ++i) {
      const double shared = tensor.name == kTokenTable ? gradients[head + i] : 0.0;
      const double gradient = gradients[static_cast<std::size_t>(tensor.offset) + i] + shared;
      ASSERT_NEAR(before.at(tensor.name)[i] - after.at(tensor.name)[i], gradient, 1e-15)
          << tensor.name;
    }
  }
}

// m microbatches are one m times as large: the same samples, the same scale.
TEST(Reference, AveragesOverTheWholeBatch) {
  const ModelSpec model = small_gpt();
  const Data ones(model, 1, 1), fours(model, 4, 1);
  const OptimizerConfig sgd{.kind = OptimizerKind::sgd, .learning_rate = 0.1};
  ReferenceOf<double> many(model, {.optimizer = sgd, .microbatches = 4, .microbatch_size = 1},
                           ones);
  ReferenceOf<double> large(model, {.optimizer = sgd, .microbatches = 1, .microbatch_size = 4},
                            fours);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(mean(many.step().losses), large.step().losses.at(0), 1e-12);
  }
  EXPECT_LT(distance(many.state(), large.state()), 1e-12);
}

TEST(Reference, FloatStaysNearDouble) {
  const ModelSpec model = small_gpt();
  const Data data(model, 2, 1);
  const ReferenceConfig config{
      .optimizer = {.kind = OptimizerKind::momentum}, .microbatches = 2, .microbatch_size = 2};
  ReferenceOf<float> narrow(model, config, data);
  ReferenceOf<double> wide(model, config, data);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(mean(narrow.step().losses), mean(wide.step().losses), 1e-4);
  }
}

/// Two layers of the chain by hand: y = x·A·B, ½Σ(y − t)², A and B 2 × 2, in plain doubles.
struct HandMade {
  using Matrix = std::array<double, 4>;
  Matrix a, b;

  struct Gradient {
    Matrix a{}, b{};
  };
  /// Of one row, times `scale`; adds to `sum`.
  void add_gradient(const double* x, const double* target, double scale, Gradient& sum) const {
    const double h[2] = {x[0] * a[0] + x[1] * a[2], x[0] * a[1] + x[1] * a[3]};
    const double e[2] = {h[0] * b[0] + h[1] * b[2] - target[0],
                         h[0] * b[1] + h[1] * b[3] - target[1]};
    for (std::size_t i = 0; i < 2; ++i) {
      const double back = e[0] * b[i * 2] + e[1] * b[i * 2 + 1];
      for (std::size_t j = 0; j < 2; ++j) {
        sum.b[i * 2 + j] += scale * h[i] * e[j];
        sum.a[j * 2 + i] += scale * x[j] * back;
      }
    }
  }
  void step(double rate, const Gradient& gradient) {
    for (std::size_t i = 0; i < 4; ++i) {
      a[i] -= rate * gradient.a[i];
      b[i] -= rate * gradient.b[i];
    }
  }
};

// Every number is dyadic and short, so float, double and any order of sums agree without tolerance.
TEST(Reference, FollowsTheRuleOfDelayedUpdatesExactly) {
  ModelSpec model = testing::tiny_linear();
  model.blocks = 2;
  model.sequence = 1;
  const std::int32_t microbatches = 4;
  const Data data(model, 1, 11);
  for (const bool is_delayed : {false, true}) {
    const ReferenceConfig config{
        .semantics = is_delayed ? WeightSemantics::delayed_by_one : WeightSemantics::vanilla,
        .optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.5},
        .microbatches = microbatches,
        .microbatch_size = 1,
        .seed = 2};
    ReferenceOf<float> narrow(model, config, data);
    ReferenceOf<double> wide(model, config, data);
    std::vector<HandMade> versions(1);
    const auto& initial = wide.state().weights;
    std::copy_n(initial.at("linear0.weight").begin(), 4, versions[0].a.begin());
    std::copy_n(initial.at("linear1.weight").begin(), 4, versions[0].b.begin());
    for (std::int64_t t = 0; t < 3; ++t) {
      const auto used = static_cast<std::size_t>(is_delayed ? std::max<std::int64_t>(t - 1, 0) : t);
      HandMade::Gradient gradient;
      Sample<double> sample;
      for (std::int64_t i = 0; i < microbatches; ++i) {
        data.fill(t * microbatches + i, sample);
        versions[used].add_gradient(sample.inputs.data(), sample.expected.data(), 0.25, gradient);
      }
      versions.push_back(versions.back());
      versions.back().step(0.5, gradient);
      const ReferenceState<double>& state = wide.step();
      const ReferenceState<float>& other = narrow.step();
      for (std::size_t i = 0; i < 4; ++i) {
        // The last numbers outgrow a double, and their rounding depends on what is fused.
        EXPECT_DOUBLE_EQ(state.weights.at("linear0.weight")[i], versions.back().a[i]) << t;
        EXPECT_DOUBLE_EQ(state.weights.at("linear1.weight")[i], versions.back().b[i]) << t;
        if (t < 2) {
          EXPECT_EQ(state.weights.at("linear0.weight")[i], versions.back().a[i]) << t;
          EXPECT_EQ(state.weights.at("linear1.weight")[i], versions.back().b[i]) << t;
          EXPECT_EQ(static_cast<double>(other.weights.at("linear0.weight")[i]),
                    versions.back().a[i]);
          EXPECT_EQ(static_cast<double>(other.weights.at("linear1.weight")[i]),
                    versions.back().b[i]);
        }
      }
    }
    EXPECT_NE(versions[0].a, versions[1].a);
    EXPECT_NE(versions[1].a, versions[2].a);
  }
}

}  // namespace
}  // namespace tandem
