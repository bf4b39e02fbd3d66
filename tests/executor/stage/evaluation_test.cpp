// The loss of given weights: what training reports for them, on other text, whatever the cut.

#include "executor/stage/evaluation.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace tandem {
namespace {

using Kernel = cpu::Kernels<float>;
using testing::TrainingCase;

/// Of each stage, from tensors by name.
std::vector<std::vector<float>> gather(const Evaluation<Kernel>& evaluation,
                                       const std::map<std::string, std::vector<float>>& tensors) {
  std::vector<std::vector<float>> weights;
  for (const Stage<Kernel>& stage : evaluation.stages()) {
    std::vector<float>& own = weights.emplace_back();
    for (const Tensor& tensor : stage.parameters()) {
      const std::vector<float>& values = tensors.at(tensor.name);
      own.insert(own.end(), values.begin(), values.end());
    }
  }
  return weights;
}

double loss_of(Evaluation<Kernel>& evaluation, const std::vector<std::vector<float>>& weights,
               std::int64_t first, std::int64_t count) {
  const std::vector<std::span<const float>> spans(weights.begin(), weights.end());
  return evaluation.loss(spans, first, count);
}

// What the reference loses on its next batch is the loss of its weights on that batch.
TEST(Evaluation, GivesTheLossOfTheReferenceBitForBit) {
  for (const bool tied : {true, false}) {
    TrainingCase test{.microbatches = 2, .microbatch_size = 3};
    test.model.tied = tied;
    const Data data = testing::data_of(test);
    Reference<Kernel> reference(test.model,
                                {.optimizer = test.optimizer,
                                 .microbatches = test.microbatches,
                                 .microbatch_size = test.microbatch_size,
                                 .seed = test.seed},
                                data);
    reference.step();
    reference.step();
    const auto tensors = reference.state().weights;
    const std::vector<double> expected = reference.step().losses;
    for (const std::size_t stages : {1u, 2u, 4u, 6u}) {
      Evaluation<Kernel> evaluation(test.model, testing::even_stages(test.model, stages),
                                    test.microbatch_size, data);
      const auto weights = gather(evaluation, tensors);
      EXPECT_EQ(loss_of(evaluation, weights, 4, 1), expected[0]) << stages;
      EXPECT_EQ(loss_of(evaluation, weights, 5, 1), expected[1]) << stages;
      EXPECT_EQ(loss_of(evaluation, weights, 4, 2), (expected[0] + expected[1]) / 2.0) << stages;
      EXPECT_NE(loss_of(evaluation, weights, 6, 1), expected[0]) << "the control: other text";
    }
  }
}

TEST(Evaluation, OfALinearModelIsItsSquaredError) {
  TrainingCase test{.model = {.name = "chain",
                              .architecture = Architecture::linear,
                              .blocks = 2,
                              .width = 1,
                              .heads = 1,
                              .sequence = 1,
                              .tied = false}};
  const Data data = testing::data_of(test);
  Evaluation<Kernel> evaluation(test.model, testing::even_stages(test.model, 2), 1, data);
  Sample<float> sample;
  data.fill(3, sample);
  const double error = 2.0 * -0.5 * sample.inputs[0] - sample.expected[0];
  // Linear, and linear with the squared error behind it: one weight each.
  EXPECT_EQ(loss_of(evaluation, {{2.0F}, {-0.5F}}, 3, 1), 0.5 * error * error);
}

TEST(EvaluationDeathTest, WantsTheWholeModel) {
  const TrainingCase test;
  const Data data = testing::data_of(test);
  const std::vector<LayerRange> half{{0, 3}};
  EXPECT_DEATH(Evaluation<Kernel>(test.model, half, 1, data), "check failed");
}

}  // namespace
}  // namespace tandem
