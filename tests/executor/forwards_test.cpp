// Forwards by the pipeline: the bits are those of the layers one after the other, on any layout.

#include "executor/forwards.h"

#include <gtest/gtest.h>

#include "core/import/models.h"
#include "core/verify/verify.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/evaluation.h"
#include "tests/executor/models_of_transformers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::even_stages;

ModelFolder folder_of(const ModelSpec& model, std::uint64_t seed = 7) {
  return {.path = "none", .model = model, .weights = std::make_unique<InitialWeights<float>>(seed)};
}

std::vector<ModelSpec> models() {
  std::vector<ModelSpec> all;
  for (const testing::ModelOfTransformers& one : testing::kModelsOfTransformers) {
    all.push_back(parse_model("config.json", one.config));
    all.back().vocabulary = 256;
  }
  return all;
}

/// By all layers as one stage, sample after sample.
std::vector<double> losses_by_layers(const ModelFolder& folder, const Data& data,
                                     std::int64_t count) {
  Evaluation<cpu::Kernels<float>> whole(folder.model, even_stages(folder.model, 1), 1, data);
  std::vector<float> weights(static_cast<std::size_t>(whole.stages()[0].sizes().parameters));
  for (const Tensor& tensor : whole.stages()[0].parameters()) {
    const auto first = static_cast<std::size_t>(tensor.offset);
    folder.weights->read(
        kNewestWeights, tensor,
        std::span(weights).subspan(first, static_cast<std::size_t>(tensor.size())));
  }
  const std::vector<std::span<const float>> spans{weights};
  std::vector<double> losses;
  for (std::int64_t sample = 0; sample < count; ++sample)
    losses.push_back(whole.loss(spans, sample, 1));
  return losses;
}

TEST(Forwards, LoseTheSameBitsOnEveryLayout) {
  constexpr std::int64_t kCount = 7;
  for (const ModelSpec& model : models()) {
    const ModelFolder folder = folder_of(model);
    const Data data(model, 1, 0, shipped_held_out_tokens(), SampleOrder::spread);
    const std::vector<double> expected = losses_by_layers(folder, data, kCount);
    for (const std::size_t depth : {1U, 2U, 3U, 4U}) {
      for (const std::int32_t microbatches : {1, 2, 3, 7, 9}) {
        const ForwardLayout layout{even_stages(model, depth), microbatches};
        EXPECT_TRUE(verify(program_of_forwards(layout)).empty());
        std::int64_t told = 0;
        EXPECT_EQ(losses_of(folder, layout, data, kCount,
                            [&told](std::int64_t samples) { told += samples; }),
                  expected)
            << model.name << ", depth " << depth << ", " << microbatches;
        EXPECT_EQ(told, kCount);
      }
    }
    // Negative control.
    EXPECT_NE(losses_by_layers(folder_of(model, 8), data, kCount), expected);
  }
}

/// The likeliest tokens, and all that was said of them.
struct Said {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
  friend bool operator==(const Said&, const Said&) = default;
};
Said said_by(const ModelFolder& folder, std::size_t depth, std::int64_t length,
             std::int64_t ends_at = 1'000) {
  Said said{.tokens = {1, 2, 3}, .logits = {}};
  go_on(folder, even_stages(folder.model, depth), said.tokens, length,
        [&](std::span<const float> logits) {
          if (std::ssize(said.tokens) == ends_at) return false;
          said.logits.emplace_back(logits.begin(), logits.end());
          said.tokens.push_back(
              static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
          return true;
        });
  return said;
}

TEST(Forwards, GoOnWithTheSameTokensOnEveryLayout) {
  for (const ModelSpec& model : models()) {
    // Over the end of a block of 64, where positions are not learned.
    const std::int64_t length = shape_of(model).positions > 0 ? 12 : 70;
    const ModelFolder folder = folder_of(model);
    const Said whole = said_by(folder, 1, length);
    EXPECT_EQ(std::ssize(whole.tokens), length);
    EXPECT_EQ(std::ssize(whole.logits), length - 3);
    for (const std::size_t depth : {2U, 3U, 4U}) EXPECT_EQ(said_by(folder, depth, length), whole);
    EXPECT_EQ(std::ssize(said_by(folder, 2, length, 9).tokens), 9) << "the text ends";
    EXPECT_NE(said_by(folder_of(model, 8), 1, length), whole) << "the control: other weights";
  }
}

// What is said is of the tokens alone: the same whether they were the prompt or were added.
TEST(Forwards, SayTheSameOfAPromptAsOfWhatWasAdded) {
  const ModelFolder folder = folder_of(models().back());
  const Said whole = said_by(folder, 2, 68);
  std::vector<std::int32_t> prompt(whole.tokens.begin(), whole.tokens.end() - 1);
  go_on(folder, even_stages(folder.model, 3), prompt, 68, [&](std::span<const float> logits) {
    EXPECT_TRUE(std::ranges::equal(logits, whole.logits.back()));
    return false;
  });
}

TEST(Forwards, EndWithWhatTheCallerThrows) {
  const ModelFolder folder = folder_of(models().front());
  EXPECT_THROW(go_on(folder, even_stages(folder.model, 2), *std::make_unique<std::vector<int>>(3),
                     9, [](auto) -> bool { throw InputError("enough"); }),
               InputError);
}

}  // namespace
}  // namespace tandem
