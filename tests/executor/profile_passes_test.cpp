#include "executor/profile_passes.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

ModelSpec small(Architecture architecture) {
  return {.name = "small",
          .architecture = architecture,
          .blocks = 3,
          .width = 8,
          .heads = 2,
          .sequence = 4,
          .vocabulary = 256,
          .tied = architecture == Architecture::gpt2};
}

Tallies measure(const ModelSpec& model, std::initializer_list<bool> passes_update) {
  const Data data(model, 2, 1);
  ModelPasses passes(model, 2, OptimizerKind::adamw, data);
  Tallies tallies;
  passes.pass(true, nullptr);
  for (const bool updates : passes_update) passes.pass(updates, &tallies);
  return tallies;
}

TEST(ModelPasses, TimesEachLayerOnceForEachOfItsFunctionsInEveryTimedPass) {
  for (const Architecture architecture : {Architecture::gpt2, Architecture::linear}) {
    const ModelSpec model = small(architecture);
    std::map<LayerKind, std::int64_t> layers;
    for (const LayerKind kind : layers_of(model)) ++layers[kind];
    const Tallies tallies = measure(model, {false, true, false});
    ASSERT_EQ(tallies.size(), layers.size());
    for (const auto& [kind, rows] : tallies) {
      const auto count = [&](Measured what) { return rows[index(what)].count; };
      EXPECT_EQ(count(Measured::forward), 3 * 2 * layers[kind]) << name(kind);
      for (const Measured each : {Measured::backward, Measured::backward_input,
                                  Measured::backward_weight, Measured::selective_recompute}) {
        EXPECT_EQ(count(each), 3 * layers[kind]) << name(kind) << ", " << index(each);
      }
      EXPECT_EQ(count(Measured::update), layers[kind]) << name(kind);
      EXPECT_GT(rows[index(Measured::forward)].sum, Duration::zero()) << name(kind);
    }
  }
}

TEST(ModelPasses, PassWithoutUpdateTimesNone) {
  for (const auto& [kind, rows] : measure(small(Architecture::gpt2), {false}))
    EXPECT_EQ(rows[index(Measured::update)].count, 0) << name(kind);
}

}  // namespace
}  // namespace tandem
