// The core's formulas for sizes against what the executor's layers and stages really take.

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/memory/storage.h"
#include "core/model/model.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/optimizer.h"
#include "executor/stage/stage.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

std::vector<ModelSpec> sized_models() {
  ModelSpec wide = testing::tiny_gpt(false);
  wide.blocks = 1;
  wide.heads = 4;
  wide.vocabulary = 300;
  ModelSpec single = testing::tiny_linear();
  single.blocks = 1;
  single.sequence = 1;
  // As GPT-2 but for a norm of each head, another table of positions and inner width.
  ModelSpec mixed = testing::tiny_qwen();
  mixed.shape.positions = 9;
  mixed.shape.rms_norm = mixed.shape.gated = false;
  mixed.shape.attention_bias = mixed.shape.mlp_bias = true;
  return {testing::tiny_gpt(),   wide,  testing::tiny_linear(),    single,
          testing::tiny_llama(), mixed, testing::tiny_llama(true), testing::tiny_qwen()};
}

constexpr std::array kEveryRecompute{Recompute::none,       Recompute::selective, Recompute::full,
                                     Recompute::uniform(2), Recompute::blocks(1), Recompute::stage};

Pieces in_bytes(const Pieces& elements, Bytes element) {
  Pieces bytes;
  for (const auto& [size, count] : elements) bytes[element * size] = count;
  return bytes;
}

template <class T>
void expect_equal_bytes(const ModelSpec& model, LayerRange range, std::int32_t microbatch_size,
                        Recompute recompute) {
  const auto element = static_cast<Bytes>(sizeof(T));
  const Stage<cpu::Kernels<T>> stage(model, range, microbatch_size, 1.0, recompute);
  const StageSizes& sizes = stage.sizes();
  const StageBytes bytes =
      stage_bytes(model, range, microbatch_size, OptimizerKind::adamw, recompute, element);
  EXPECT_EQ(bytes[SlotKind::weights], sizes.parameters * element);
  EXPECT_EQ(bytes[SlotKind::gradients], sizes.parameters * element);
  EXPECT_EQ(bytes[SlotKind::stash], sizes.stash * element);
  const Pieces pieces = in_bytes(sizes.pieces().stash, element);
  Pieces planned = bytes.pieces.stash;
  std::erase_if(planned, [](const auto& piece) { return piece.first * piece.second == 0; });
  EXPECT_EQ(planned, pieces);
  for (const SlotKind kind : {SlotKind::input, SlotKind::output, SlotKind::input_gradient})
    EXPECT_EQ(bytes[kind], sizes.boundary * element);
  EXPECT_EQ(bytes[SlotKind::kept_gradients], sizes.kept_gradients * element);
  EXPECT_EQ(bytes.workspace, sizes.scratch * element);
  EXPECT_EQ(bytes.optimizer, 2 * sizes.parameters * element);
  EXPECT_EQ(boundary_bytes(model, microbatch_size, element), sizes.boundary * element);
  const StageBytes muon =
      stage_bytes(model, range, microbatch_size, OptimizerKind::muon, recompute, element);
  const std::int64_t scratch = muon_scratch<T, T>(stage.parameters());
  EXPECT_EQ(muon.workspace, std::max(sizes.scratch, scratch) * element);
  EXPECT_EQ(muon.optimizer, StateLayout(OptimizerKind::muon, stage.parameters()).size() * element);
}

TEST(ModelSizes, StagesTakeWhatTheFormulasSayToTheByte) {
  for (const ModelSpec& model : sized_models()) {
    const auto layers = static_cast<std::int32_t>(layers_of(model).size());
    for (std::int32_t first = 0; first < layers; ++first) {
      for (std::int32_t last = first + 1; last <= layers; ++last) {
        SCOPED_TRACE(::testing::Message() << model.name << " [" << first << ", " << last << ")");
        for (const Recompute recompute : kEveryRecompute) {
          expect_equal_bytes<float>(model, {first, last}, 1, recompute);
          expect_equal_bytes<double>(model, {first, last}, 3, recompute);
        }
      }
    }
  }
}

// Slots have room for the longest slice, and each stash is of its own.
void expect_slices_take_what_is_said(const ModelSpec& model) {
  const std::vector<std::int32_t> lengths{3, 1, 2};
  const auto slices = slices_of(model.sequence, lengths);
  for (const LayerRange range : {LayerRange{0, 3}, LayerRange{1, 2}, LayerRange{2, 6}}) {
    for (const Recompute recompute : kEveryRecompute) {
      SCOPED_TRACE(name(recompute));
      const StageBytes bytes = stage_bytes(model, range, 3, OptimizerKind::adamw, recompute,
                                           Storage::f32, parts_of(lengths));
      ASSERT_EQ(bytes.slices.size(), slices.size());
      for (std::size_t i = 0; i < slices.size(); ++i) {
        const StageSizes sizes =
            Stage<cpu::Kernels<float>>(model, range, 3, 1.0, recompute, slices[i]).sizes();
        Pieces planned = bytes.slices[i].pieces.stash;
        std::erase_if(planned, [](const auto& piece) { return piece.first * piece.second == 0; });
        EXPECT_EQ(planned, in_bytes(sizes.pieces().stash, 4)) << i;
        if (recompute == Recompute::stage) {
          EXPECT_EQ(bytes.slices[i].pieces.context, in_bytes(sizes.pieces().context, 4)) << i;
        }
        EXPECT_EQ(bytes[SlotKind::context_gradient], 4 * sizes.context_gradient);
        if (i > 0) continue;
        EXPECT_EQ(bytes[SlotKind::output], 4 * sizes.boundary);
        EXPECT_EQ(bytes[SlotKind::kept_gradients], 4 * sizes.kept_gradients);
        EXPECT_EQ(bytes.workspace, 4 * sizes.scratch);
      }
    }
  }
}

TEST(ModelSizes, SlicesTakeWhatTheFormulasSayToTheByte) {
  for (const ModelSpec& model :
       {testing::tiny_gpt(), testing::tiny_llama(), testing::tiny_qwen()}) {
    SCOPED_TRACE(model.name);
    expect_slices_take_what_is_said(model);
  }
}

// A transformer block: 14 d + heads + 4 numbers a token inside its two layers, or 8 d + heads.
TEST(ModelSizes, SelectiveRecomputationDropsNormsAndGelu) {
  const ModelSpec model = testing::tiny_gpt();
  const std::int64_t tokens = 3LL * model.sequence, d = model.width;
  const auto stash = [&](LayerRange layer, Recompute recompute) {
    return stage_bytes(model, layer, 3, OptimizerKind::sgd, recompute, 1)[SlotKind::stash];
  };
  const auto block = [&](Recompute recompute) {
    return stash({1, 2}, recompute) + stash({2, 3}, recompute);
  };
  EXPECT_EQ(block(Recompute::none), tokens * (14 * d + model.heads + 4));
  EXPECT_EQ(block(Recompute::selective), tokens * (8 * d + model.heads));
  EXPECT_EQ(block(Recompute::stage), block(Recompute::none));
}

// What a split backward keeps beside the stash: of a block the gradients of its norms' outputs, and
// those of the boundaries within; of the rest, seven widths a token, the stash has the place.
TEST(ModelSizes, SplitBackwardsKeepGradientsInTheStash) {
  const ModelSpec model = testing::tiny_gpt();
  const std::int64_t tokens = 3LL * model.sequence, d = model.width;
  const StageBytes bytes = stage_bytes(model, {1, 3}, 3, OptimizerKind::sgd, Recompute::none, 1);
  EXPECT_EQ(bytes[SlotKind::kept_gradients], tokens * 3 * d);
  const Stage<cpu::Kernels<float>> stage(model, {1, 3}, 3, 1.0);
  EXPECT_EQ(stage.sizes().inner_gradient, tokens * 4 * d);
}

// Of each block its input alone, which the slot of the stage's input holds of the first; what the
// head keeps stays, for that is not made again.
TEST(ModelSizes, RecomputationByBlockKeepsInputs) {
  ModelSpec model = testing::tiny_gpt();
  model.blocks = 4;
  const Bytes boundary = boundary_bytes(model, 3, 1);
  const auto bytes = [&](LayerRange layers, Recompute recompute) {
    return stage_bytes(model, layers, 3, OptimizerKind::sgd, recompute, 1);
  };
  const auto stash = [&](LayerRange layers, Recompute recompute) {
    return bytes(layers, recompute)[SlotKind::stash];
  };
  const LayerRange blocks{1, 9}, head{9, 10}, last{3, 10};
  EXPECT_EQ(stash(blocks, Recompute::full), 3 * boundary);
  EXPECT_EQ(stash(blocks, Recompute::uniform(2)), boundary);
  EXPECT_EQ(stash(blocks, Recompute::uniform(3)), boundary);
  EXPECT_EQ(stash(blocks, Recompute::uniform(4)), 0);
  EXPECT_EQ(stash(last, Recompute::full), 3 * boundary + stash(head, Recompute::none));
  const Bytes block = stash({1, 3}, Recompute::none);
  EXPECT_EQ(stash(blocks, Recompute::blocks(1)), stash(blocks, Recompute::none) - block);
  EXPECT_EQ(stash(blocks, Recompute::blocks(9)), stash(blocks, Recompute::full));
  // One block stands in the workspace, or two.
  const Bytes workspace = bytes(blocks, Recompute::none).workspace;
  EXPECT_EQ(bytes(blocks, Recompute::full).workspace, workspace + block);
  EXPECT_EQ(bytes(blocks, Recompute::uniform(2)).workspace, workspace + 2 * block + boundary);
  EXPECT_EQ(bytes(blocks, Recompute::full)[SlotKind::kept_gradients],
            bytes(blocks, Recompute::none)[SlotKind::kept_gradients] + 4 * block);
}

TEST(ModelSizes, CountsTheParametersOfPublishedModels) {
  ModelSpec model;
  model.blocks = 12;
  model.width = 768;
  model.heads = 12;
  model.sequence = 1024;
  model.vocabulary = 50257;
  EXPECT_EQ(parameter_count(model), 124'439'808);  // GPT-2 small
  model.blocks = 48;
  model.width = 1600;
  model.heads = 25;
  EXPECT_EQ(parameter_count(model), 1'557'611'200);  // GPT-2 XL
  model.tied = false;
  EXPECT_EQ(parameter_count(model), 1'557'611'200 + 50257LL * 1600);
}

TEST(ModelSizes, NamesAreThoseOfTheFiles) {
  EXPECT_EQ(name(LayerKind::embedding), "embedding");
  EXPECT_EQ(name(LayerKind::squared_error), "squared_error");
  EXPECT_EQ(name(OptimizerKind::sgd), "sgd");
  EXPECT_EQ(name(OptimizerKind::momentum), "momentum");
  EXPECT_EQ(name(OptimizerKind::adamw), "adamw");
  EXPECT_EQ(name(OptimizerKind::nadam), "nadam");
  EXPECT_EQ(name(OptimizerKind::muon), "muon");
  EXPECT_EQ(optimizer_states(OptimizerKind::sgd), 0);
  EXPECT_EQ(optimizer_states(OptimizerKind::momentum), 1);
  EXPECT_EQ(optimizer_states(OptimizerKind::adamw), 2);
  EXPECT_EQ(optimizer_states(OptimizerKind::nadam), 2);
  EXPECT_EQ(matrix_states(OptimizerKind::nadam), 2);
  EXPECT_EQ(optimizer_states(OptimizerKind::muon), 2);
  EXPECT_EQ(matrix_states(OptimizerKind::muon), 1);
  EXPECT_EQ(optimizer_states({OptimizerKind::sgd, DelayCorrection::error_feedback}), 1);
  EXPECT_EQ(optimizer_states({OptimizerKind::adamw, DelayCorrection::error_feedback}), 3);
  EXPECT_EQ(describe(OptimizerKind::adamw), "adamw");
  EXPECT_EQ(describe({OptimizerKind::sgd, DelayCorrection::error_feedback_with_decay}),
            "sgd with delay correction error-feedback-with-decay");
}

}  // namespace
}  // namespace tandem
