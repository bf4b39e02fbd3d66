// Latent attention, shared experts and dense blocks against sums by hand, plainer models and
// DeepSeek's own figures.

#include <chrono>
#include <cmath>

#include <gtest/gtest.h>

#include "core/model/catalog.h"
#include "simulator/cost/analytic.h"
#include "tests/simulator/exactly.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::exactly;

constexpr double kNeverMind = 1e30;
constexpr LayerRange kFirstAttention{1, 2}, kFirstMlp{2, 3}, kSecondMlp{4, 5};

// Of 8 tokens: 4 channels; 2 heads of 3, of which positions turn one, and values of 2, made of 2
// and 3 channels.
const ModelSpec kLatent{
    .architecture = Architecture::transformer,
    .blocks = 2,
    .width = 4,
    .heads = 2,
    .sequence = 8,
    .vocabulary = 16,
    .tied = false,
    .shape = {
        .key_value_heads = 2,
        .head_width = 3,
        .mlp_width = 6,
        .rms_norm = true,
        .query_bias = false,
        .attention_bias = false,
        .mlp_bias = false,
        .gated = true,
        .dropout = false,
        .latent = {.key_value_rank = 3, .query_rank = 2, .rotary_width = 1, .value_width = 2}}};

/// With four experts in the second block, of which a token takes two, and one that all take.
ModelSpec with_experts() {
  ModelSpec model = kLatent;
  model.shape.experts = 4;
  model.shape.experts_per_token = 2;
  model.shape.shared_experts = 1;
  model.shape.dense_blocks = 1;
  model.shape.dense_mlp_width = 9;
  model.shape.expert_bias = true;
  return model;
}

StageTimes times_of_latent(const ModelSpec& model, LayerRange range, double flops_per_s,
                           double bytes_per_s, AnalyticAssumptions assumptions = exactly()) {
  DeviceSpec device{.name = "card", .memory_bytes_per_s = bytes_per_s};
  device.flops_per_s[static_cast<std::size_t>(NumberFormat::fp32)] = flops_per_s;
  return analytic_layers(model, 1, Recompute::none, OptimizerKind::adamw, device, assumptions)
      .of(range);
}

StageBytes bytes_of_layers(const ModelSpec& model, LayerRange range) {
  return analytic_stage_bytes(model, range, 1, OptimizerKind::adamw, Recompute::none,
                              exactly(NumberFormat::bf16, AttentionKernel::flash));
}

// Products of 2 t · in · out flops: queries through 2 channels, keys and values through 3 and the
// one that positions turn; what heads make of them; the projection behind.
constexpr int kNarrow = 16 * (4 * 2 + 4 * (3 + 1)), kHeads = 16 * (2 * 6 + 3 * (2 * 2 + 2 * 2)),
              kBehind = 16 * 4 * 4;

TEST(LatentAttention, ItsFlopsAreThoseOfItsProducts) {
  const int all = kNarrow + kHeads + kBehind, scores = 2 * 8 * 8 * 6, values = 2 * 8 * 8 * 4;
  const StageTimes plain = times_of_latent(kLatent, kFirstAttention, 1e6, kNeverMind);
  EXPECT_EQ(plain.forward, microseconds(all + scores + values));
  EXPECT_EQ(plain.backward_input, microseconds(all + 2 * (scores + values)));
  EXPECT_EQ(plain.backward_weight, microseconds(all));
  // Of the causal half: the scores made again, then two products for them and two for values.
  const StageTimes flash = times_of_latent(kLatent, kFirstAttention, 1e6, kNeverMind,
                                           exactly(NumberFormat::fp32, AttentionKernel::flash));
  EXPECT_EQ(flash.forward, microseconds(all + (scores + values) / 2));
  EXPECT_EQ(flash.backward_input, microseconds(all + (3 * scores + 2 * values) / 2));
  EXPECT_EQ(forward_flops(kLatent, LayerKind::attention), all + scores + values);
}

TEST(LatentAttention, WhoShareItMakeTheNarrowChannelsEach) {
  AnalyticAssumptions two = exactly();
  two.tensor = 2;
  const StageTimes shared = times_of_latent(kLatent, kFirstAttention, 1e6, kNeverMind, two);
  EXPECT_EQ(shared.backward_weight, microseconds(kNarrow + (kHeads + kBehind) / 2));
  const LayerParameters parameters = layer_parameters(kLatent, LayerKind::attention);
  EXPECT_EQ(parameters.shared, (kHeads + kBehind) / 16);
  EXPECT_EQ(parameters.whole, kNarrow / 16 + 2 + 3 + 4);  // and norms
}

TEST(LatentAttention, QueriesOfTheStreamAreOneProduct) {
  ModelSpec plain = kLatent;
  plain.shape.latent.query_rank = 0;
  const int narrow = 16 * 4 * (3 + 1), heads = 16 * (4 * 6 + 3 * 8);
  EXPECT_EQ(times_of_latent(plain, kFirstAttention, 1e6, kNeverMind).backward_weight,
            microseconds(narrow + heads + kBehind));
  EXPECT_EQ(layer_parameters(plain, LayerKind::attention).all(),
            (narrow + heads + kBehind) / 16 + 3 + 4);
}

TEST(LatentAttention, TheNarrowChannelsAreKeptTwice) {
  // The norm's output; q, k, v, what attention made; narrow channels before and behind their norms.
  EXPECT_EQ(bytes_of_layers(kLatent, kFirstAttention)[SlotKind::stash],
            2 * 8 * (4 + 6 + 6 + 4 + 4 + 2 * (2 + 3)));
}

TEST(LatentAttention, MuonStepsEachOfItsMatrices) {
  std::int64_t parameters = 0;
  for (const HiddenMatrices& matrix : hidden_matrices(kLatent, LayerKind::attention))
    parameters += matrix.parameters();
  EXPECT_EQ(parameters, (kNarrow + kHeads + kBehind) / 16);
}

TEST(DenseBlocks, CostWhatAModelWithoutExpertsDoes) {
  const ModelSpec mixed = with_experts();
  ModelSpec dense = kLatent;
  dense.shape.mlp_width = 9;
  for (const auto& [flops, bytes] : {std::pair(1e6, kNeverMind), std::pair(kNeverMind, 1e6)}) {
    const StageTimes one = times_of_latent(mixed, kFirstMlp, flops, bytes),
                     other = times_of_latent(dense, kFirstMlp, flops, bytes);
    EXPECT_EQ(one.forward, other.forward);
    EXPECT_EQ(one.backward, other.backward);
    EXPECT_EQ(one.update, other.update);
    EXPECT_NE(times_of_latent(mixed, kSecondMlp, flops, bytes).forward, other.forward);
  }
  const StageBytes one = bytes_of_layers(mixed, {1, 3}), other = bytes_of_layers(dense, {1, 3}),
                   sparse = bytes_of_layers(mixed, {3, 5});
  EXPECT_EQ(one.slot, other.slot);
  EXPECT_EQ(one.optimizer, other.optimizer);
  EXPECT_EQ(one.workspace, other.workspace);
  EXPECT_NE(sparse.slot, other.slot);
}

TEST(SharedExperts, ComputeForEveryToken) {
  const ModelSpec mixed = with_experts();
  // Two experts of four and one that all take: 2 t · 3 d f each; 2 t d · 4 that choose.
  const int expert = 2 * 8 * 3 * 4 * 6, choice = 2 * 8 * 4 * 4;
  EXPECT_EQ(times_of_latent(mixed, kSecondMlp, 1e6, kNeverMind).forward,
            microseconds(3 * expert + choice));
  EXPECT_EQ(forward_flops(mixed, LayerKind::mlp), 3 * expert + choice);
  const std::int64_t of_expert = 3 * 4 * 6;
  EXPECT_EQ(parameters_of(mixed, LayerKind::mlp), 5 * of_expert + 4 * 4 + 4 + 4);
  EXPECT_EQ(parameter_count(mixed) - active_parameter_count(mixed), 2 * of_expert);
  ModelSpec alone = mixed;
  alone.shape.shared_experts = 0;
  // Its two products in, and what is between them.
  EXPECT_EQ(bytes_of_layers(mixed, {3, 5})[SlotKind::stash] -
                bytes_of_layers(alone, {3, 5})[SlotKind::stash],
            2 * 8 * (2 * 6 + 6));
}

// arXiv 2505.09343, table 2, counts these of a token of training at 4,096 tokens, of attention the
// causal half; ours count all of it.
TEST(DeepSeek, ATokensFlopsAreThePublishedOnes) {
  const auto gflops_of_token = [](const char* name) {
    ModelSpec model = find_model(name)->model;
    model.sequence = 4096;
    const double width = 1.0 * model.heads * (model.shape.head_width + model.shape.value_width());
    const double half = model.blocks * model.sequence * width;  // of 2 s · width forward
    return (model_flops(model) / model.sequence - 3 * half) / 1e9;
  };
  EXPECT_NEAR(gflops_of_token("deepseek-v3"), 250, 1.5);
  EXPECT_NEAR(gflops_of_token("deepseek-v2"), 155, 1.0);
  EXPECT_NEAR(gflops_of_token("llama-3.1-405b"), 2448, 30);
}

}  // namespace
}  // namespace tandem
