// Each layer's gradients against differences of its forward, in double; and that a layer reads and
// writes what it says.

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "executor/cpu/kernels.h"
#include "executor/layers/all.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

using K = cpu::Kernels<double>;
using testing::gradient_error;
using testing::random_numbers;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kLossScale = 0.125;

/// One layer with everything it reads and writes. What it writes starts as NaN.
struct Bench {
  Bench(const ModelSpec& model, std::int32_t index, Recompute recompute)
      : shape{.model = model,
              .microbatch_size = 2,
              .loss_scale = kLossScale,
              .recompute = recompute},
        layer(shape, index) {
    const bool computes_loss =
        layer.kind() == LayerKind::head || layer.kind() == LayerKind::squared_error;
    sample = testing::random_sample<double>(model, 2, 7);
    weights = random_numbers<double>(layer.weights_size(), 1, 0.4);
    input = random_numbers<double>(shape.boundary(), 2);
    stash.assign(static_cast<std::size_t>(layer.stash_size()), kNothing);
    inner_gradient.assign(static_cast<std::size_t>(layer.inner_size()), kNothing);
    scratch.assign(static_cast<std::size_t>(layer.scratch_size()), kNothing);
    input_gradient.assign(input.size(), kNothing);
    gradients.assign(weights.size(), 0.0);
    if (!computes_loss) {
      output.assign(input.size(), kNothing);
      output_gradient = random_numbers<double>(shape.boundary(), 3);
    }
  }

  /// The number whose gradient backward computes: the scaled loss, or the output weighted by
  /// output_gradient.
  double forward() {
    double loss = kNothing;
    layer.forward(kernels, {.weights = weights,
                            .input = input,
                            .sample = &sample,
                            .stash = stash,
                            .output = output,
                            .scratch = scratch,
                            .loss = &loss});
    if (output.empty()) {
      return loss * static_cast<double>(shape.rows()) * kLossScale;
    }
    double sum = 0.0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      sum += output[i] * output_gradient[i];
    }
    return sum;
  }

  BackwardSpans<double> backward_spans() {
    return {.weights = weights,
            .input = input,
            .output_gradient = output_gradient,
            .stash = stash,
            .inner_gradient = inner_gradient,
            .scratch = scratch,
            .input_gradient = input_gradient,
            .gradients = gradients};
  }
  void backward() {
    const BackwardSpans<double> spans = backward_spans();
    layer.backward_input(kernels, spans);
    layer.backward_weight(kernels, spans);
  }

  K kernels;
  LayerShape shape;
  AnyLayer<K> layer;
  Sample<double> sample;
  std::vector<double> weights, input, stash, output;
  std::vector<double> output_gradient, inner_gradient, scratch, input_gradient, gradients;
};

struct LayerCase {
  std::string name;
  ModelSpec model;
  std::int32_t index;
  Recompute recompute = Recompute::none;
};

std::vector<LayerCase> cases() {
  const ModelSpec tied = testing::tiny_gpt(), untied = testing::tiny_gpt(false),
                  chain = testing::tiny_linear(), llama = testing::tiny_llama(),
                  qwen = testing::tiny_qwen();
  return {{"embedding", tied, 0},
          {"attention", tied, 1},
          {"mlp", tied, 2},
          {"head", tied, 5},
          {"untied_head", untied, 5},
          {"linear", chain, 1},
          {"squared_error", chain, 3},
          {"llama_embedding", llama, 0},
          {"llama_attention", llama, 1},
          {"llama_mlp", llama, 2},
          {"llama_head", llama, 5},
          {"qwen_attention", qwen, 3},
          {"llama_attention_selective", llama, 1, Recompute::selective},
          {"llama_mlp_selective", llama, 2, Recompute::selective},
          {"qwen_attention_selective", qwen, 1, Recompute::selective},
          {"attention_selective", tied, 1, Recompute::selective},
          {"mlp_selective", tied, 2, Recompute::selective},
          {"head_selective", tied, 5, Recompute::selective}};
}

class EveryLayer : public ::testing::TestWithParam<LayerCase> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryLayer, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(EveryLayer, ComputesTheGradientOfItsForward) {
  Bench bench(GetParam().model, GetParam().index, GetParam().recompute);
  bench.forward();
  bench.backward();
  const auto function = [&] { return bench.forward(); };
  for (const Tensor& tensor : bench.layer.tensors()) {
    const auto first = static_cast<std::size_t>(tensor.offset);
    const auto size = static_cast<std::size_t>(tensor.size());
    EXPECT_LT(
        gradient_error(std::span(bench.weights).subspan(first, size),
                       std::span<const double>(bench.gradients).subspan(first, size), function),
        1e-9)
        << tensor.name;
  }
  if (bench.layer.kind() != LayerKind::embedding) {
    EXPECT_LT(gradient_error(bench.input, bench.input_gradient, function), 1e-9);
  }
}

// Negative control: the checker sees one element of one tensor that is off by a thousandth of the
// gradient's length.
TEST_P(EveryLayer, CheckerFindsAPlantedError) {
  Bench bench(GetParam().model, GetParam().index, GetParam().recompute);
  bench.forward();
  bench.backward();
  const auto function = [&] { return bench.forward(); };
  std::vector<double>& gradient = bench.weights.empty() ? bench.input_gradient : bench.gradients;
  std::vector<double>& values = bench.weights.empty() ? bench.input : bench.weights;
  ASSERT_LT(gradient_error(values, gradient, function), 1e-9);
  double length = 0.0;
  for (const double value : gradient) {
    length += value * value;
  }
  gradient[gradient.size() / 2] += 1e-3 * std::sqrt(length);
  EXPECT_GT(gradient_error(values, gradient, function), 1e-6);
}

TEST_P(EveryLayer, WritesAllThatItClaimsAndOnlyAddsToGradients) {
  Bench bench(GetParam().model, GetParam().index, GetParam().recompute);
  bench.forward();
  bench.backward();
  for (const auto* written :
       {&bench.stash, &bench.output, &bench.inner_gradient, &bench.scratch, &bench.gradients}) {
    for (const double value : *written) {
      ASSERT_FALSE(std::isnan(value));
    }
  }
  const std::vector<double> once = bench.gradients;
  bench.backward();
  for (std::size_t i = 0; i < once.size(); ++i) {
    ASSERT_NEAR(bench.gradients[i], 2 * once[i], 1e-12);
  }
}

TEST_P(EveryLayer, WeightGradientsDoNotReadWhatTheInnerGradientReplaces) {
  Bench whole(GetParam().model, GetParam().index, GetParam().recompute);
  Bench halves = whole;
  whole.forward();
  whole.backward();
  halves.forward();
  const BackwardSpans<double> spans = halves.backward_spans();
  halves.layer.backward_input(halves.kernels, spans);
  std::ranges::copy(halves.inner_gradient, halves.stash.begin());
  halves.layer.backward_weight(halves.kernels, spans);
  EXPECT_EQ(halves.gradients, whole.gradients);
  // One number more is read, of a layer that keeps anything behind them.
  const std::size_t inner = halves.inner_gradient.size();
  if (inner == 0 || halves.layer.kind() != LayerKind::mlp) return;
  std::fill(halves.stash.begin() + static_cast<std::ptrdiff_t>(inner), halves.stash.end(),
            kNothing);
  halves.layer.backward_weight(halves.kernels, spans);
  EXPECT_NE(halves.gradients, whole.gradients);
}

TEST_P(EveryLayer, LeavesTheSameStashWhenTheOutputIsNotWanted) {
  Bench bench(GetParam().model, GetParam().index, GetParam().recompute);
  bench.forward();
  const std::vector<double> stash = bench.stash;
  std::fill(bench.stash.begin(), bench.stash.end(), kNothing);
  bench.output.clear();
  bench.forward();
  EXPECT_EQ(bench.stash, stash);
}

/// All that forward and backward leave, but for stash and scratch. Another microbatch used the
/// scratch between them.
auto left_by(const LayerCase& wanted, Recompute recompute) {
  Bench bench(wanted.model, wanted.index, recompute);
  const double value = bench.forward();
  std::fill(bench.scratch.begin(), bench.scratch.end(), kNothing);
  bench.backward();
  if (bench.layer.kind() == LayerKind::embedding) bench.input_gradient.clear();  // it makes none
  return std::tuple(value, bench.output, bench.input_gradient, bench.gradients);
}

TEST_P(EveryLayer, GivesTheSameBitsWithSelectiveRecomputation) {
  EXPECT_EQ(left_by(GetParam(), Recompute::none), left_by(GetParam(), Recompute::selective));
}

TEST(SelectiveRecomputation, MakesAgainWhatForwardLeftInScratch) {
  Bench bench(testing::tiny_gpt(), 2, Recompute::selective);
  bench.forward();
  const std::vector<double> left = bench.scratch;
  std::fill(bench.scratch.begin(), bench.scratch.end(), kNothing);
  bench.layer.recompute(bench.kernels, {.weights = bench.weights,
                                        .input = bench.input,
                                        .stash = bench.stash,
                                        .scratch = bench.scratch});
  const LayerShape none{.model = bench.shape.model, .microbatch_size = 2};
  const std::int64_t dropped = bench.layer.scratch_size() - AnyLayer<K>(none, 2).scratch_size();
  EXPECT_GT(dropped, 0);
  EXPECT_TRUE(std::equal(left.end() - dropped, left.end(), bench.scratch.end() - dropped));
}

// By several threads, each element from its own place in the stream.
TEST(InitialWeights, AreThoseOfTheirStreamHoweverLargeTheTensor) {
  const Tensor tensor{
      .name = "w", .shape = {1000, 1100}, .initial = Initial::normal, .deviation = 0.5, .key = "w"};
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  initialise(tensor, 7, std::span<float>(values));
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    wrong += values[i] != static_cast<float>(0.5 * normal(7, key_of("w"), i));
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tandem
