// The layers against the library whose weights they read: the loss and gradients of tiny GPT-2,
// Llama 3, Qwen 2 and Qwen 3 from their own config.json, and losses over 20 steps of AdamW against
// a loop of PyTorch's (models_of_transformers.py).

#include "tests/executor/models_of_transformers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/import/models.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/stage.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

using testing::GradientOfTransformers;
using testing::ModelOfTransformers;

constexpr std::int32_t kBatch = testing::kBatchOfTransformers;

/// A model as one stage, with the weights and tokens of the script.
template <class T>
class WholeTransformer {
 public:
  explicit WholeTransformer(const ModelSpec& model)
      : model_(model),
        stage_(model, {0, static_cast<std::int32_t>(layers_of(model).size())}, kBatch,
               mean_loss_scale(model, kBatch, 1)) {
    const StageSizes& sizes = stage_.sizes();
    for (auto* part : {&weights_, &gradients_, &first_, &second_})
      part->assign(at(sizes.parameters), T{});
    stash_.resize(at(sizes.stash));
    scratch_.resize(at(sizes.scratch));
    std::int64_t number = 0;
    for (const Tensor& tensor : stage_.parameters()) {
      if (is_copy(tensor)) continue;
      const bool is_gain = tensor.name.ends_with("gain");
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        const auto value = static_cast<double>((7919 * i + 4729 * number + 13) % 1009 - 504);
        weights_[at(tensor.offset + i)] = static_cast<T>(value / 2048 + (is_gain ? 1.0 : 0.0));
      }
      ++number;
    }
    tie();
  }

  double loss(std::int64_t step) {
    fill(step);
    double loss = 0.0;
    stage_.forward(kernels_, {.weights = weights_,
                              .sample = &sample_,
                              .stash = stash_,
                              .scratch = scratch_,
                              .loss = &loss});
    return loss;
  }
  /// A row of the vocabulary for each token.
  std::span<const T> logits(std::int64_t step) {
    fill(step);
    sample_.targets.clear();
    const ForwardSpans<T, T> spans{
        .weights = weights_, .sample = &sample_, .stash = stash_, .scratch = scratch_};
    stage_.forward(kernels_, spans);
    return stage_.logits(spans).first(sample_.tokens.size() * at(model_.vocabulary));
  }
  /// Of the mean loss; those of a tied table are both its ends'.
  void backward() {
    std::ranges::fill(gradients_, T{});
    stage_.backward(
        kernels_,
        {.weights = weights_, .stash = stash_, .scratch = scratch_, .gradients = gradients_});
    if (!model_.tied) return;
    const std::span<T> table = part(gradients_, kTokenTable);
    kernels_.add(table, part(gradients_, kHeadTable), table);
  }
  void step(double steps) {
    for (const Tensor& tensor : stage_.parameters()) {
      const std::vector<ElementRange> decayed{{0, tensor.decayed ? tensor.size() : 0}};
      const std::span<T> weights = part(weights_, tensor.name);
      kernels_.step(OptimizerKind::adamw,
                    StepSpans<T>{.weights = weights,
                                 .gradient = part(gradients_, tensor.name),
                                 .first = part(first_, tensor.name),
                                 .second = part(second_, tensor.name),
                                 .weights_out = weights,
                                 .decayed = decayed},
                    {.learning_rate = 1e-2,
                     .weight_decay = 0.1,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .epsilon = 1e-8,
                     .correction1 = 1.0 - std::pow(0.9, steps),
                     .correction2 = 1.0 - std::pow(0.95, steps)});
    }
    tie();
  }
  std::span<const T> gradient(const std::string& name) { return part(gradients_, name); }
  std::int64_t tensors() const {
    return std::ranges::count_if(stage_.parameters(),
                                 [this](const Tensor& tensor) { return !is_copy(tensor); });
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  bool is_copy(const Tensor& tensor) const { return model_.tied && tensor.name == kHeadTable; }
  std::span<T> part(std::vector<T>& of, const std::string& name) {
    for (const Tensor& tensor : stage_.parameters()) {
      if (tensor.name == name) return std::span(of).subspan(at(tensor.offset), at(tensor.size()));
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  void tie() {
    if (model_.tied)
      std::ranges::copy(part(weights_, kTokenTable), part(weights_, kHeadTable).begin());
  }
  void fill(std::int64_t step) {
    sample_ = {};
    const auto token = [&](std::int64_t i) {
      return static_cast<std::int32_t>((7 * i * i + 3 * i + 5) % model_.vocabulary);
    };
    const std::int64_t row = model_.sequence + 1;
    for (std::int64_t sample = 0; sample < kBatch; ++sample) {
      for (std::int64_t i = 0; i < model_.sequence; ++i) {
        const std::int64_t place = (step * kBatch + sample) * row + i;
        sample_.tokens.push_back(token(place));
        sample_.targets.push_back(token(place + 1));
      }
    }
  }

  ModelSpec model_;
  cpu::Kernels<T> kernels_;
  Stage<cpu::Kernels<T>> stage_;
  Sample<T> sample_;
  std::vector<T> weights_, gradients_, first_, second_, stash_, scratch_;
};

/// The largest difference, relative to the gradient's length.
template <class T>
double gradient_difference(std::span<const T> gradient, const GradientOfTransformers& expected) {
  double square = 0.0, along = 0.0, direction_square = 0.0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto value = static_cast<double>(gradient[i]);
    const double direction = (static_cast<double>((2083 * i + 17) % 97) - 48) / 48;
    square += value * value;
    along += value * direction;
    direction_square += direction * direction;
  }
  double worst = std::max(std::abs(std::sqrt(square) - expected.length),
                          std::abs(along - expected.along) / std::sqrt(direction_square));
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = static_cast<double>(gradient[i * (gradient.size() - 1) / 3]);
    worst = std::max(worst, std::abs(value - expected.elements[i]));
  }
  return worst / expected.length;
}

template <class T>
double worst_gradient(const ModelSpec& model, const ModelOfTransformers& expected) {
  WholeTransformer<T> whole(model);
  EXPECT_NEAR(whole.loss(0), expected.loss, 1e-5 * expected.loss);
  whole.backward();
  EXPECT_EQ(whole.tensors(), std::ssize(expected.gradients));
  double worst = 0.0;
  for (const GradientOfTransformers& gradient : expected.gradients)
    worst = std::max(worst, gradient_difference(whole.gradient(gradient.name), gradient));
  return worst;
}

class OfTransformers : public ::testing::TestWithParam<int> {
 protected:
  const ModelOfTransformers& expected() const {
    return testing::kModelsOfTransformers[static_cast<std::size_t>(GetParam())];
  }
  ModelSpec model() const { return parse_model("config.json", expected().config); }
};
std::string name_of_case(const ::testing::TestParamInfo<int>& info) {
  constexpr const char* kNames[] = {"gpt2", "llama3", "qwen2", "qwen3"};
  return kNames[info.param];
}
INSTANTIATE_TEST_SUITE_P(Models, OfTransformers, ::testing::Range(0, 4), name_of_case);

TEST_P(OfTransformers, LossAndGradientsAreTheLibrarys) {
  EXPECT_EQ(why_untrainable(model()), "");
  EXPECT_LT(worst_gradient<float>(model(), expected()), 1e-5);
  EXPECT_LT(worst_gradient<double>(model(), expected()), 1e-5);
}

/// The largest difference, relative to the largest number.
template <class T>
double logits_difference(const ModelSpec& model, const std::vector<double>& expected) {
  WholeTransformer<T> whole(model);
  const std::span<const T> logits = whole.logits(0);
  const auto row = static_cast<std::size_t>(model.vocabulary);
  EXPECT_EQ(expected.size(), (logits.size() / row + 4) / 5 * row);
  double worst = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = static_cast<double>(logits[i / row * 5 * row + i % row]);
    worst = std::max(worst, std::abs(value - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

TEST_P(OfTransformers, LogitsAreTheLibrarys) {
  EXPECT_LT(logits_difference<float>(model(), expected().logits), 1e-5);
  // Both turn rotary positions by angles rounded to float, each in its own way.
  EXPECT_LT(logits_difference<double>(model(), expected().logits), 1e-6);
  std::vector<double> wrong = expected().logits;
  std::swap(wrong[0], wrong[1]);  // the control
  EXPECT_GT(logits_difference<double>(model(), wrong), 1e-5);
}

TEST_P(OfTransformers, TwentyStepsOfAdamWHaveItsLosses) {
  WholeTransformer<float> whole(model());
  for (std::size_t step = 0; step < expected().losses.size(); ++step) {
    EXPECT_NEAR(whole.loss(static_cast<std::int64_t>(step)), expected().losses[step], 1e-4) << step;
    whole.backward();
    whole.step(static_cast<double>(step + 1));
  }
}

// Negative control: numbers that a file could have been read wrongly with.
TEST_P(OfTransformers, AnotherDetailIsSeen) {
  ModelSpec other = model();
  if (other.architecture == Architecture::gpt2) {
    other.shape = shape_of(other);
    other.architecture = Architecture::transformer;
    other.shape.details.norm_epsilon = 1e-3;
  } else {
    EXPECT_EQ(other.shape.details.norm_epsilon, 1e-6);
    RotaryPositions& rotary = other.shape.details.rotary;
    if (rotary.scaling == RotaryScaling::llama3) {
      rotary.scaling = RotaryScaling::none;
    } else {
      rotary.theta *= 1.01;
    }
  }
  WholeTransformer<double> whole(other);
  whole.loss(0);
  whole.backward();
  double worst = 0.0;
  for (const GradientOfTransformers& gradient : expected().gradients)
    worst = std::max(worst, gradient_difference(whole.gradient(gradient.name), gradient));
  EXPECT_GT(worst, 1e-4);
}

}  // namespace
}  // namespace tandem
