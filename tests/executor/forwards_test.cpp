// Forwards by the pipeline: the bits are those of the layers one after the other, on any layout.

#include "executor/forwards.h"

#include <gtest/gtest.h>

#include "core/import/models.h"
#include "core/verify/verify.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/products.h"
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

/// The same, with positions for longer texts.
std::vector<ModelSpec> models_that_read(std::int64_t tokens) {
  std::vector<ModelSpec> all = models();
  for (ModelSpec& model : all) model.sequence = static_cast<std::int32_t>(tokens);
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
  constexpr std::int64_t length = 70;
  for (const ModelSpec& model : models_that_read(length)) {
    const ModelFolder folder = folder_of(model);
    const Said whole = said_by(folder, 1, length);
    EXPECT_EQ(std::ssize(whole.tokens), length);
    EXPECT_EQ(std::ssize(whole.logits), length - 3);
    for (const std::size_t depth : {2U, 3U, 4U}) EXPECT_EQ(said_by(folder, depth, length), whole);
    EXPECT_EQ(std::ssize(said_by(folder, 2, length, 9).tokens), 9) << "the text ends";
    EXPECT_NE(said_by(folder_of(model, 8), 1, length), whole) << "the control: other weights";
  }
}

/// What all layers as one stage say of the last of the tokens. Nothing is kept from a call to the
/// next.
std::vector<float> said_of_all(const ModelFolder& folder, std::span<const std::int32_t> tokens) {
  ModelSpec model = folder.model;
  model.sequence = static_cast<std::int32_t>(tokens.size());
  const Stage<cpu::Kernels<float>> stage(model, even_stages(model, 1)[0], 1, 1.0);
  std::vector<float> weights(static_cast<std::size_t>(stage.sizes().parameters));
  stage.initialise(weights, 7);
  Sample<float> sample;
  sample.tokens.assign(tokens.begin(), tokens.end());
  std::vector<float> stash(static_cast<std::size_t>(stage.sizes().stash));
  const ForwardSpans<float> spans{.weights = weights, .sample = &sample, .stash = stash};
  cpu::Kernels<float> kernels;
  stage.forward(kernels, spans);
  const auto vocabulary = static_cast<std::size_t>(model.vocabulary);
  const auto last = stage.logits(spans).subspan((tokens.size() - 1) * vocabulary, vocabulary);
  return {last.begin(), last.end()};
}

/// What `make` says with products that add in one order whatever their shapes.
template <class Make>
auto with_portable_products(const Make& make) {
  const auto before = cpu::products();
  cpu::set_products({.engine = "portable"});
  const auto made = make();
  cpu::set_products({.engine = before.engine.name, .precision = before.engine.precision});
  return made;
}

// Keys and values are kept: what is said has the bits of all tokens read anew for each one. Over
// the ends of two blocks that prompts are read in, and of two that attention multiplies.
TEST(Forwards, SayWithKeptKeysAndValuesWhatAllTokensSay) {
  constexpr std::int64_t kLength = 140;
  for (const ModelSpec& model : models_that_read(kLength)) {
    const ModelFolder folder = folder_of(model);
    const Said rounded = said_by(folder, 3, kLength);  // by the products of this machine
    const Said said = with_portable_products([&] {
      Said exact = said_by(folder, 3, kLength);
      const std::span<const std::int32_t> tokens = exact.tokens;
      for (const std::size_t size : {3U, 4U, 63U, 64U, 65U, 66U, 128U, 129U, 139U}) {
        const std::vector<float> anew = said_of_all(folder, tokens.first(size));
        EXPECT_EQ(exact.logits[size - 3], anew) << model.name << ", " << size;
        for (std::size_t token = 0; token < anew.size(); ++token)
          EXPECT_NEAR(rounded.logits[size - 3][token], anew[token], 1e-5) << model.name;
      }
      return exact;
    });
    EXPECT_EQ(rounded.tokens, said.tokens);
    // The control: what is said is not that of the last tokens alone.
    EXPECT_NE(said_of_all(folder, std::span(said.tokens).last(64)),
              said_of_all(folder, said.tokens));
  }
}

// What is said is of the tokens alone: the same whether they were the prompt or were added.
TEST(Forwards, SayTheSameOfAPromptAsOfWhatWasAdded) {
  constexpr std::int64_t kLength = 140;
  for (const ModelSpec& model : models_that_read(kLength)) {
    const ModelFolder folder = folder_of(model);
    with_portable_products([&] {
      const Said whole = said_by(folder, 2, kLength);
      for (const std::int64_t added : {1, 12, 13, 76}) {
        std::vector<std::int32_t> prompt(whole.tokens.begin(), whole.tokens.end() - added);
        go_on(folder, even_stages(folder.model, 3), prompt, kLength, [&](auto logits) {
          const auto at = static_cast<std::size_t>(kLength - 3 - added);
          EXPECT_TRUE(std::ranges::equal(logits, whole.logits[at])) << added;
          return false;
        });
      }
      return true;
    });
  }
}

TEST(Forwards, EndWithWhatTheCallerThrows) {
  const ModelFolder folder = folder_of(models().front());
  EXPECT_THROW(go_on(folder, even_stages(folder.model, 2), *std::make_unique<std::vector<int>>(3),
                     9, [](auto) -> bool { throw InputError("enough"); }),
               InputError);
}

}  // namespace
}  // namespace tandem
