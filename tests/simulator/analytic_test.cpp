// The roofline of each layer against sums by hand; bytes against published formulas.

#include "simulator/cost/analytic.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "tests/simulator/exactly.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::exactly;

// Layers: embedding, attention, mlp, head. Of a microbatch of one sample: 8 tokens, 32 elements,
// 2 · 8² = 128 scores, 128 logits.
const ModelSpec kModel{.blocks = 1, .width = 4, .heads = 2, .sequence = 8, .vocabulary = 16};
constexpr LayerRange kEmbedding{0, 1}, kAttention{1, 2}, kMlp{2, 3}, kHead{3, 4}, kAll{0, 4};
constexpr double kWhatever = 1e30;

/// A device that takes a microsecond for a flop, or for a byte.
DeviceSpec device(double flops_per_s, double bytes_per_s) {
  DeviceSpec device{.name = "card", .memory_bytes_per_s = bytes_per_s};
  device.flops_per_s[static_cast<std::size_t>(NumberFormat::fp32)] = flops_per_s;
  return device;
}

StageTimes by_flops(LayerRange range, const AnalyticAssumptions& assumptions = exactly(),
                    Recompute recompute = Recompute::none) {
  return analytic_layers(kModel, 1, recompute, OptimizerKind::adamw, device(1e6, kWhatever),
                         assumptions)
      .of(range);
}

StageTimes by_bytes(LayerRange range, std::int32_t microbatch_size = 1) {
  return analytic_layers(kModel, microbatch_size, Recompute::none, OptimizerKind::adamw,
                         device(kWhatever, 1e6), exactly())
      .of(range);
}

void expect_times(const StageTimes& times, int forward, int input, int weight) {
  EXPECT_EQ(times.forward, microseconds(forward));
  EXPECT_EQ(times.recompute, microseconds(forward));
  EXPECT_EQ(times.backward_input, microseconds(input));
  EXPECT_EQ(times.backward_weight, microseconds(weight));
  EXPECT_EQ(times.backward, microseconds(input + weight));
}

TEST(Analytic, CountsTheFlopsOfProducts) {
  expect_times(by_flops(kEmbedding), 0, 0, 0);
  // 8 t d² = 1024 of projections, 4 t s d = 1024 of the core, whose backward has no weights.
  expect_times(by_flops(kAttention), 1024 + 1024, 1024 + 2 * 1024, 1024);
  expect_times(by_flops(kMlp), 2048, 2048, 2048);   // 16 t d²
  expect_times(by_flops(kHead), 1024, 1024, 1024);  // 2 t d V
  expect_times(by_flops(kAll), 5120, 7168 - 1024, 4096);
}

TEST(Analytic, FlashComputesTheCausalHalfAndAgainInTheBackward) {
  expect_times(by_flops(kAttention, exactly(NumberFormat::fp32, AttentionKernel::flash)),
               1024 + 512, 1024 + 1280, 1024);
}

// Of l tokens behind c others, one head or several of d channels in all: 2 d pairs for a product of
// scores, of which there are l (c + l/2) where flash attention looks at causal ones alone, and
// l (c + l) else.
TEST(Analytic, ASliceTakesLongerTheMoreTokensStandBeforeIt) {
  const auto flash = exactly(NumberFormat::fp32, AttentionKernel::flash);
  const auto on_slice = [](const AnalyticAssumptions& assumptions, LayerRange range, int l, int c) {
    return analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw, device(1e6, kWhatever),
                           assumptions, {}, {l, c})
        .of(range);
  };
  for (int l = 1; l <= 8; ++l) {
    for (int c = 0; c + l <= 8; ++c) {
      const int projections = 8 * 16 * l, causal = 8 * l * (2 * c + l), all = 16 * l * (c + l);
      expect_times(on_slice(flash, kAttention, l, c), projections + causal,
                   projections + causal * 5 / 2, projections);
      expect_times(on_slice(exactly(), kAttention, l, c), projections + all, projections + 2 * all,
                   projections);
      expect_times(on_slice(flash, kMlp, l, c), 256 * l, 256 * l, 256 * l);
      expect_times(on_slice(flash, kHead, l, c), 128 * l, 128 * l, 128 * l);
    }
  }
  // Causal pairs are shared out among the slices; as if each stood first, some would be missing.
  for (const std::vector<std::int32_t>& lengths :
       {std::vector{8}, std::vector{4, 4}, std::vector{5, 3}, std::vector{1, 1, 4, 2}}) {
    Duration behind{}, first{};
    for (const SequencePart part : parts_of(lengths)) {
      behind += on_slice(flash, kAttention, part.tokens, part.before).forward;
      first += on_slice(flash, kAttention, part.tokens, 0).forward;
    }
    EXPECT_EQ(behind, by_flops(kAttention, flash).forward);
    EXPECT_EQ(first == behind, lengths.size() == 1);
  }
}

TEST(Analytic, ASharedLayerIsSplitAndSummed) {
  AnalyticAssumptions two = exactly();
  two.tensor = 2;
  const LayerTimes layers = analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw,
                                            device(1e6, kWhatever), two, microseconds(7));
  expect_times(layers.of(kEmbedding), 7, 0, 0);
  expect_times(layers.of(kAttention), 1024 + 7, 512 + 1024 + 7, 512);
  expect_times(layers.of(kMlp), 1024 + 7, 1024 + 7, 1024);
  expect_times(layers.of(kHead), 512, 512 + 7, 512);
}

TEST(Analytic, SelectiveRecomputationDoesTheCoreOfAttentionAgain) {
  expect_times(by_flops(kAttention, exactly(), Recompute::selective), 2048, 3072 + 1024, 1024);
  expect_times(by_flops(kMlp, exactly(), Recompute::selective), 2048, 2048, 2048);
  // Flash attention has stored nothing that could be dropped.
  const auto flash = exactly(NumberFormat::fp32, AttentionKernel::flash);
  expect_times(by_flops(kAttention, flash, Recompute::selective), 1536, 2304, 1024);
}

TEST(Analytic, CountsTheBytesThatMove) {
  // Rows read and written, dropout's mask; backward through dropout; rows of the table added to.
  expect_times(by_bytes(kEmbedding), 13 * 32, 9 * 32, 12 * 32);
  const int norm = 8 * 32, qkv = 4 * (32 + 48 + 96), products = 2 * (2 * 128 + 4 * 128),
            softmax = 8 * 128, dropout = 9 * 128, projection = 4 * (32 + 16 + 32),
            residual = 13 * 32;
  EXPECT_EQ(by_bytes(kAttention).forward,
            microseconds(norm + qkv + products + softmax + dropout + projection + residual));
  EXPECT_EQ(by_bytes(kAttention).backward_input,
            microseconds(12 * 32 + qkv + 2 * products + 12 * 128 + dropout + projection + 17 * 32));
  EXPECT_EQ(by_bytes(kAttention).backward_weight, microseconds(qkv + 4 * 48 + projection + 4 * 16));
  const int narrow_wide = 4 * (32 + 64 + 128);
  expect_times(by_bytes(kMlp), norm + 2 * narrow_wide + 8 * 4 * 32 + residual,
               12 * 32 + 2 * narrow_wide + 12 * 4 * 32 + 17 * 32, 2 * (narrow_wide + 4 * 64));
  const int logits = 4 * (32 + 64 + 128);
  expect_times(by_bytes(kHead), norm + logits + 8 * 128, 12 * 32 + logits + 8 * 128,
               logits + 4 * 64);
}

TEST(Analytic, AKernelTakesTheLongerOfBoth) {
  // 2 t d V = 1024 flops beside 4 (t d + d V + t V) = 896 bytes: 1024; the rest is bytes.
  const StageTimes both =
      analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw, device(1e6, 1e6), exactly())
          .of(kHead);
  EXPECT_EQ(both.forward, microseconds(8 * 32 + 1024 + 8 * 128));
}

TEST(Analytic, UpdatesMoveTheOptimizersState) {
  const auto parameters = parameters_of(kModel, LayerKind::mlp);
  // fp32: two states read and written, the gradient read and cleared, the weights read and written.
  EXPECT_EQ(by_bytes(kMlp).update, microseconds((16 + 16) * parameters));
  DeviceSpec half = device(kWhatever, 1e6);
  half.flops_per_s[static_cast<std::size_t>(NumberFormat::fp16)] = kWhatever;
  const auto update = [&](Optimizer optimizer) {
    return analytic_layers(kModel, 1, Recompute::none, optimizer, half, exactly(NumberFormat::fp16))
        .of(kMlp)
        .update;
  };
  // fp16: the master copy besides.
  EXPECT_EQ(update(OptimizerKind::adamw), microseconds((24 + 6) * parameters));
  EXPECT_EQ(update(OptimizerKind::sgd), microseconds((8 + 6) * parameters));
  EXPECT_EQ(update(OptimizerKind::nadam), update(OptimizerKind::adamw));
  // The step before is read and written, too.
  EXPECT_EQ(update({OptimizerKind::adamw, DelayCorrection::error_feedback}),
            microseconds((32 + 6) * parameters));
}

TEST(Analytic, ACorrectionOfDelayKeepsTheStepBeforeOfEachParameter) {
  const auto bytes = [](Optimizer optimizer) {
    return analytic_stage_bytes(kModel, {1, 3}, 1, optimizer, Recompute::none,
                                exactly(NumberFormat::fp16))
        .optimizer;
  };
  const auto parameters =
      parameters_of(kModel, LayerKind::attention) + parameters_of(kModel, LayerKind::mlp);
  EXPECT_EQ(bytes(OptimizerKind::adamw), 12 * parameters);
  EXPECT_EQ(bytes({OptimizerKind::adamw, DelayCorrection::error_feedback}), 16 * parameters);
}

// 20m²n + 10m³ operations a matrix, m the smaller side: of two of d × 4d in an mlp, of d × 3d and
// d × d in an attention.
TEST(Analytic, MuonMakesHiddenMatricesOrthogonal) {
  const auto update = [](LayerRange range, Optimizer optimizer, double flops, double bytes) {
    return analytic_layers(kModel, 1, Recompute::none, optimizer, device(flops, bytes), exactly())
        .of(range)
        .update;
  };
  const std::int64_t d = kModel.width, square = d * d, cube = d * square;
  const auto operations = [&](LayerRange range) {
    return update(range, OptimizerKind::muon, 1e6, kWhatever);
  };
  EXPECT_EQ(operations(kMlp), microseconds(2 * (20 * 4 + 10) * cube));
  EXPECT_EQ(operations(kAttention), microseconds((20 * 3 + 10 + 20 + 10) * cube));
  EXPECT_EQ(operations(kHead), Duration{});
  // One state less, of 8 bytes moved; the slope, its squares, its quotient and what the step reads
  // of it; then in each of five steps 6 times the matrix and 7 times its product with itself.
  const auto moved = [&](OptimizerKind kind) { return update(kMlp, kind, kWhatever, 1e6); };
  const std::int64_t matrix = 4 * square;
  EXPECT_EQ(moved(OptimizerKind::muon) - moved(OptimizerKind::adamw),
            microseconds(2 * (-8 * matrix + 20 * matrix + 5 * 4 * (6 * matrix + 7 * square))));
}

TEST(Analytic, MuonKeepsAStateOfHiddenMatricesAndWorksInScratch) {
  const auto bytes = [](OptimizerKind kind) {
    return analytic_stage_bytes(kModel, kMlp, 1, kind, Recompute::none,
                                exactly(NumberFormat::fp16));
  };
  const std::int64_t square = std::int64_t{kModel.width} * kModel.width;
  EXPECT_EQ(bytes(OptimizerKind::adamw).optimizer - bytes(OptimizerKind::muon).optimizer,
            4 * 8 * square);
  EXPECT_GE(bytes(OptimizerKind::muon).workspace, (4 + 2) * (4 + 1) * square);
  EXPECT_GE(bytes(OptimizerKind::muon).workspace, bytes(OptimizerKind::adamw).workspace);
}

TEST(Analytic, MuonNeedsWholeMatrices) {
  AnalyticAssumptions two = exactly();
  two.tensor = 2;
  EXPECT_THROW(
      analytic_layers(kModel, 1, Recompute::none, OptimizerKind::muon, device(1e6, 1e6), two),
      ShapeError);
  EXPECT_THROW(analytic_stage_bytes(kModel, kMlp, 1, OptimizerKind::muon, Recompute::none, two),
               ShapeError);
}

AnalyticAssumptions with_overheads(const Calibration& overheads) {
  AnalyticAssumptions assumptions = exactly();
  assumptions.calibration = overheads;
  return assumptions;
}

TEST(Analytic, ConstantsAreGivenOrCalibratedOrTypicalOrNone) {
  DeviceSpec known = device(1e9, 1e6);
  AnalyticAssumptions assumptions;
  EXPECT_EQ(constants_of(assumptions, known), Calibration{});
  known.typical = kTypicalConstants;
  EXPECT_EQ(constants_of(assumptions, known), kTypicalConstants);
  assumptions.calibration = Calibration{.product_fraction = 0.1, .link_fraction = 0.3};
  EXPECT_EQ(constants_of(assumptions, known), *assumptions.calibration);
  assumptions.memory_fraction = 0.2;
  assumptions.link_fraction = 0.4;
  const Calibration given = constants_of(assumptions, known);
  EXPECT_EQ(given.product_fraction, 0.1);
  EXPECT_EQ(given.memory_fraction, 0.2);
  EXPECT_EQ(given.link_fraction, 0.4);
  EXPECT_EQ(given.network_fraction, 0.4);
}

TEST(Analytic, AProductMayTakeMore) {
  const auto more = with_overheads({.product_s = 1e-3});
  expect_times(by_flops(kMlp, more), 2048 + 2000, 2048 + 2000, 2048 + 2000);
  expect_times(by_flops(kAttention, more), 2048 + 4000, 3072 + 6000, 1024 + 2000);
  expect_times(by_flops(kEmbedding, more), 0, 0, 0);
}

TEST(Analytic, TheHostLaunchesWhileTheDeviceWorks) {
  // Forward: norm, fc, GELU, projection, residual. A device that takes longer hides them.
  const StageTimes held_up = by_flops(kMlp, with_overheads({.launch_s = 1e-3}));
  EXPECT_EQ(held_up.forward, microseconds(5000));
  EXPECT_EQ(held_up.recompute, microseconds(5000));
  EXPECT_EQ(held_up.backward_input, microseconds(5000));
  EXPECT_EQ(held_up.backward_weight, microseconds(2048));
  EXPECT_EQ(held_up.backward, microseconds(7000)) << "the device catches up with the host";
  expect_times(by_flops(kMlp, with_overheads({.launch_s = 1e-4})), 2048, 2048, 2048);
  // Of a shared layer also the sum, which is work of the device.
  AnalyticAssumptions two = with_overheads({.launch_s = 1e-3});
  two.tensor = 2;
  const LayerTimes layers = analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw,
                                            device(1e6, kWhatever), two, microseconds(5500));
  EXPECT_EQ(layers.of(kMlp).forward, microseconds(1024 + 5500));
  EXPECT_EQ(layers.of(kMlp).backward_weight, microseconds(2000));
  EXPECT_EQ(layers.of(kMlp).backward, microseconds(8000)) << "8 launches";
}

TEST(Analytic, SoftmaxIsFusedForFourMatricesOfScores) {
  // Norm, qkv, core of 4 (backward 6), projection, residual; two heads of a sample are no four.
  const auto assumptions = with_overheads({.launch_s = 1.0, .unfused_launches = 10.0});
  const auto times = [&](std::int32_t samples, AttentionKernel kernel) {
    AnalyticAssumptions with = assumptions;
    with.attention = kernel;
    return analytic_layers(kModel, samples, Recompute::none, OptimizerKind::adamw,
                           device(1e6, kWhatever), with)
        .of(kAttention);
  };
  using std::chrono::seconds;
  EXPECT_EQ(times(2, AttentionKernel::plain).forward, seconds(8));
  EXPECT_EQ(times(1, AttentionKernel::plain).forward, seconds(13));
  EXPECT_EQ(times(2, AttentionKernel::plain).backward_input, seconds(10));
  EXPECT_EQ(times(1, AttentionKernel::plain).backward_input, seconds(15));
  EXPECT_EQ(times(1, AttentionKernel::flash).forward, times(2, AttentionKernel::flash).forward);
}

TEST(Analytic, TheLossMayPassOverItsLogitsMoreThanOnce) {
  const auto forward = [](double passes) {
    return analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw, device(kWhatever, 1e6),
                           with_overheads({.loss_passes = passes}))
        .of(kHead)
        .forward;
  };
  EXPECT_EQ(forward(3.0) - forward(1.0), microseconds(2 * 8 * 128));
}

TEST(Analytic, AchievedFractionsStretchTime) {
  AnalyticAssumptions half = exactly();
  half.product_fraction = 0.5;
  expect_times(by_flops(kMlp, half), 4096, 4096, 4096);
  half = exactly();
  half.memory_fraction = 0.25;
  const StageTimes slow = analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw,
                                          device(kWhatever, 1e6), half)
                              .of(kEmbedding);
  EXPECT_EQ(slow.forward, microseconds(4 * 13 * 32));
}

TEST(Analytic, ActivationsAreThoseOfTheSelectiveRecomputationPaper) {
  // s b h (34 + 5 a s / h) bytes a block in 16 bits (arXiv 2205.05198, equation 1), its input,
  // which a transfer brings, included.
  const ModelSpec& model = find_model("gpt3-175b")->model;
  const auto bytes = [&](const AnalyticAssumptions& assumptions, Recompute recompute) {
    const StageBytes stage =
        analytic_stage_bytes(model, {1, 3}, 2, OptimizerKind::adamw, recompute, assumptions);
    return stage[SlotKind::stash] + stage[SlotKind::input];
  };
  const Bytes sbh = Bytes{2048} * 2 * 12288, scores = Bytes{96} * 2048 * 2048 * 2;
  const auto plain = exactly(NumberFormat::fp16);
  const auto flash = exactly(NumberFormat::fp16, AttentionKernel::flash);
  EXPECT_EQ(bytes(plain, Recompute::none), 34 * sbh + 5 * scores);
  EXPECT_EQ(bytes(plain, Recompute::selective), 34 * sbh);
  EXPECT_EQ(bytes(flash, Recompute::none), 34 * sbh);
  EXPECT_EQ(bytes(exactly(), Recompute::none), (64 + 2) * sbh + 9 * scores);  // 32 bits
}

TEST(Analytic, SharedActivationsAreThoseOfTheSamePaper) {
  // s b h (10 + 24 / t + 5 a s / (h t)) bytes a block (equation 2).
  const ModelSpec& model = find_model("gpt3-175b")->model;
  AnalyticAssumptions shared = exactly(NumberFormat::fp16);
  shared.tensor = 8;
  const StageBytes stage =
      analytic_stage_bytes(model, {1, 3}, 2, OptimizerKind::adamw, Recompute::none, shared);
  const Bytes sbh = Bytes{2048} * 2 * 12288, scores = Bytes{96} * 2048 * 2048 * 2;
  EXPECT_EQ(stage[SlotKind::stash] + stage[SlotKind::input], 13 * sbh + 5 * scores / 8);
  // Matrices are shared; norms and the biases of outputs are on every device.
  const Bytes d = 12288;
  EXPECT_EQ(stage[SlotKind::weights], 2 * (12 * d * d / 8 + 7 * d / 8 + 6 * d));
}

TEST(Analytic, ASplitSequenceSharesTheRestToo) {
  // s b h (34 + 5 a s / h) / t bytes a block (equation 4); one input a block where it is made
  // again.
  const ModelSpec& model = find_model("gpt3-175b")->model;
  AnalyticAssumptions split = exactly(NumberFormat::fp16);
  split.tensor = 8;
  split.sequence_parallel = true;
  const auto bytes = [&](const AnalyticAssumptions& assumptions, LayerRange layers,
                         Recompute recompute) {
    const StageBytes stage =
        analytic_stage_bytes(model, layers, 2, OptimizerKind::adamw, recompute, assumptions);
    return stage[SlotKind::stash] + stage[SlotKind::input];
  };
  const Bytes sbh = Bytes{2048} * 2 * 12288, scores = Bytes{96} * 2048 * 2048 * 2;
  EXPECT_EQ(bytes(split, {1, 3}, Recompute::none), (34 * sbh + 5 * scores) / 8);
  EXPECT_EQ(bytes(split, {1, 3}, Recompute::selective), 34 * sbh / 8);
  EXPECT_EQ(bytes(split, {1, 9}, Recompute::full), 4 * 2 * sbh / 8);
  split.sequence_parallel = false;
  EXPECT_EQ(bytes(split, {1, 9}, Recompute::full), 4 * 2 * sbh);
  AnalyticAssumptions alone = exactly(NumberFormat::fp16);
  const Bytes none = bytes(alone, {1, 3}, Recompute::none);
  alone.sequence_parallel = true;
  EXPECT_EQ(bytes(alone, {1, 3}, Recompute::none), none);
}

TEST(Analytic, ASplitSequenceTakesLessTimeForWhatOnlyMovesBytes) {
  const auto forward = [](LayerRange layer, bool splits) {
    AnalyticAssumptions shared = exactly();
    shared.tensor = 2;
    shared.sequence_parallel = splits;
    return analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw, device(kWhatever, 1e6),
                           shared)
        .of(layer)
        .forward;
  };
  // The norm reads and writes; the residual sum reads two, writes one, and a mask of dropout.
  const Duration all = microseconds((2 * 4 + 3 * 4 + 1) * 4 * 8);
  EXPECT_EQ(forward(kMlp, false) - forward(kMlp, true), all / 2);
}

TEST(Analytic, AParameterTakesSixteenBytesInMixedPrecisionWithAdam) {
  const StageBytes stage = analytic_stage_bytes(kModel, {1, 3}, 1, OptimizerKind::adamw,
                                                Recompute::none, exactly(NumberFormat::bf16));
  const Bytes parameters =
      parameters_of(kModel, LayerKind::attention) + parameters_of(kModel, LayerKind::mlp);
  EXPECT_EQ(stage[SlotKind::weights], 2 * parameters);
  EXPECT_EQ(stage[SlotKind::gradients], 2 * parameters);
  EXPECT_EQ(stage.optimizer, 12 * parameters);
}

TEST(Analytic, FlopsOfAModelAreThoseOfThePublishedFormula) {
  // 96 s l h² (1 + s/(6h) + V/(16 l h)) with the forward done twice; three quarters of it without.
  for (const char* name : {"megatron-1.7b", "megatron-39.1b", "gpt-2.2b"}) {
    const ModelSpec& model = find_model(name)->model;
    const double s = model.sequence, l = model.blocks, h = model.width, v = model.vocabulary;
    const double published = 96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    EXPECT_NEAR(model_flops(model) + forward_flops(model), published + 2 * s * h * v,
                published * 1e-12)
        << name;  // the formula does not do the head again
  }
}

// Layers as Llama has them, of 8 tokens: 4 channels, 2 heads of 2, one of keys and values, 6 wide.
const ModelSpec kLlama{.architecture = Architecture::transformer,
                       .blocks = 1,
                       .width = 4,
                       .heads = 2,
                       .sequence = 8,
                       .vocabulary = 16,
                       .tied = false,
                       .shape = {.key_value_heads = 1,
                                 .head_width = 2,
                                 .mlp_width = 6,
                                 .rms_norm = true,
                                 .query_bias = false,
                                 .attention_bias = false,
                                 .mlp_bias = false,
                                 .gated = true,
                                 .dropout = false}};

StageTimes times_of(const ModelSpec& model, LayerRange range, double flops_per_s,
                    double bytes_per_s, AttentionKernel attention = AttentionKernel::plain) {
  return analytic_layers(model, 1, Recompute::none, OptimizerKind::adamw,
                         device(flops_per_s, bytes_per_s), exactly(NumberFormat::fp32, attention))
      .of(range);
}

TEST(Analytic, LlamaHasFewerKeysAndAThirdMatrix) {
  // 2 t d (q + 2 k) = 2 · 8 · 4 · 8, 2 t q d = 2 · 8 · 4 · 4; the core as kModel's.
  expect_times(times_of(kLlama, kAttention, 1e6, kWhatever), 512 + 256 + 1024, 768 + 2048, 768);
  // 2 t d · 2 f and 2 t f d.
  expect_times(times_of(kLlama, kMlp, 1e6, kWhatever), 1152, 1152, 1152);
  const int norm = 8 * 32, qkv = 4 * (32 + 32 + 64), turn = 8 * 48, products = 2 * (4 * 48 + 512),
            softmax = 8 * 128, projection = 4 * (32 + 16 + 32), sum = 12 * 32;
  expect_times(times_of(kLlama, kAttention, kWhatever, 1e6),
               norm + qkv + turn + products + softmax + projection + sum,
               12 * 32 + qkv + turn + 2 * products + 12 * 128 + projection + 8 * 32,
               qkv + 4 * 32 + projection + 4 * 16);
  const int up = 4 * (32 + 48 + 96), down = 4 * (48 + 24 + 32);
  expect_times(times_of(kLlama, kMlp, kWhatever, 1e6), norm + up + 12 * 48 + down + sum,
               12 * 32 + up + 20 * 48 + down + 8 * 32, up + 4 * 48 + down + 4 * 24);
  // Rows of one table, read and written; no dropout behind them.
  expect_times(times_of(kLlama, kEmbedding, kWhatever, 1e6), 8 * 32, 0, 12 * 32);
}

TEST(Analytic, LlamaStashesNoMasks) {
  const auto stage = analytic_stage_bytes(kLlama, {1, 3}, 1, OptimizerKind::adamw, Recompute::none,
                                          exactly(NumberFormat::bf16, AttentionKernel::flash));
  // Two inputs and two norms' outputs; q, k, v and what attention made; gate, up, their product.
  EXPECT_EQ(stage[SlotKind::stash] + stage[SlotKind::input], 2 * 8 * (4 * 4 + 2 * (4 + 2) + 3 * 6));
  EXPECT_EQ(stage[SlotKind::weights], 2 * (parameters_of(kLlama, LayerKind::attention) +
                                           parameters_of(kLlama, LayerKind::mlp)));
}

TEST(Analytic, ANormBehindCostsAsTheOneBefore) {
  ModelSpec gemma = kLlama;
  gemma.shape.output_norm = true;
  for (const LayerRange layer : {kAttention, kMlp}) {
    const StageTimes one = times_of(kLlama, layer, kWhatever, 1e6),
                     two = times_of(gemma, layer, kWhatever, 1e6);
    EXPECT_EQ(two.forward - one.forward, microseconds(8 * 32));
    EXPECT_EQ(two.backward_input - one.backward_input, microseconds(12 * 32));
    EXPECT_EQ(two.backward_weight, one.backward_weight);
  }
  const auto stash = [](const ModelSpec& model) {
    return analytic_stage_bytes(
        model, {1, 3}, 1, OptimizerKind::adamw, Recompute::none,
        exactly(NumberFormat::bf16, AttentionKernel::flash))[SlotKind::stash];
  };
  EXPECT_EQ(stash(gemma) - stash(kLlama), 2 * 2 * 32);
}

TEST(Analytic, ATokenIsComputedByItsExpertsAndAllOfThemAreKept) {
  ModelSpec sparse = kLlama;
  sparse.shape.experts = 5;
  sparse.shape.experts_per_token = 2;
  // Twice kLlama's products, and 2 t d · 5 that choose.
  const int all = 2 * 1152 + 320;
  expect_times(times_of(sparse, kMlp, 1e6, kWhatever), all, all, all);
  EXPECT_EQ(forward_flops(sparse) - forward_flops(kLlama), 1152 + 320);
  // Bytes: norm, what chooses and its softmax, copies of 8 tokens as 16 and back, products of 16
  // rows with five matrices, activation, sum.
  const int choose = 4 * (32 + 20 + 40), spread = 4 * 3 * 32, up = 4 * (64 + 5 * 48 + 192),
            down = 4 * (96 + 5 * 24 + 64);
  expect_times(times_of(sparse, kMlp, kWhatever, 1e6),
               8 * 32 + choose + 8 * 40 + 2 * spread + up + 2 * 12 * 48 + down + 12 * 32,
               12 * 32 + choose + 12 * 40 + 2 * spread + up + 2 * 20 * 48 + down + 8 * 32,
               choose + 4 * 20 + up + 4 * 5 * 48 + down + 4 * 5 * 24);
  // Two tokens meet at most four of the five.
  ModelSpec few = sparse, dense = kLlama;
  few.sequence = dense.sequence = 2;
  EXPECT_EQ(times_of(few, kMlp, kWhatever, 1e6).backward_weight,
            microseconds(4 * (8 + 20 + 10) + 4 * 20 + 4 * (16 + 2 * 4 * 48 + 48) +
                         4 * (24 + 2 * 4 * 24 + 16)));
  EXPECT_EQ(parameters_of(sparse, LayerKind::mlp), 5 * 72 + 4 + 20);
  const auto bytes = [](const ModelSpec& model) {
    return analytic_stage_bytes(model, kMlp, 1, OptimizerKind::adamw, Recompute::none,
                                exactly(NumberFormat::bf16, AttentionKernel::flash));
  };
  EXPECT_EQ(bytes(sparse)[SlotKind::weights], 2 * (5 * 72 + 4 + 20));
  EXPECT_EQ(bytes(sparse).optimizer, 12 * (5 * 72 + 4 + 20));
  // Gate, up and product a second time; scores; the copies and what was made of them.
  EXPECT_EQ(bytes(sparse)[SlotKind::stash] - bytes(kLlama)[SlotKind::stash],
            2 * (8 * 18 + 8 * 5 + 2 * 64));
}

TEST(Analytic, FlopsOfAForwardAreTwoForEachWeightAndTheCore) {
  for (const char* name : {"llama-2-7b", "llama-2-70b", "mistral-7b"}) {
    const ModelSpec& model = find_model(name)->model;
    const auto of = [&](LayerKind kind) { return layer_parameters(model, kind).shared; };
    const double s = model.sequence, core = 4 * s * s * model.heads * model.shape.head_width;
    const double weights = static_cast<double>(
        model.blocks * (of(LayerKind::attention) + of(LayerKind::mlp)) + of(LayerKind::head));
    EXPECT_DOUBLE_EQ(forward_flops(model), 2 * s * weights + model.blocks * core) << name;
  }
}

TEST(Analytic, WhoAttendsToAllComputesBothHalves) {
  ModelSpec both = kLlama;
  both.shape.causal = false;
  const auto flash = AttentionKernel::flash;
  expect_times(times_of(kLlama, kAttention, 1e6, kWhatever, flash), 768 + 512, 768 + 1280, 768);
  expect_times(times_of(both, kAttention, 1e6, kWhatever, flash), 768 + 1024, 768 + 2560, 768);
}

TEST(Analytic, BertsHeadHasAProductMore) {
  ModelSpec bert = kModel;
  bert.architecture = Architecture::transformer;
  bert.shape = shape_of(kModel);
  expect_times(times_of(bert, kHead, 1e6, kWhatever), 1024, 1024, 1024);
  bert.shape.masked_head = true;
  expect_times(times_of(bert, kHead, 1e6, kWhatever), 1280, 1280, 1280);
  bert.shape.pooler = true;
  expect_times(times_of(bert, kHead, 1e6, kWhatever), 1312, 1312, 1312);
}

TEST(Analytic, ATransformerShapedAsGptTwoCostsAsMuch) {
  ModelSpec same = kModel;
  same.architecture = Architecture::transformer;
  same.shape = shape_of(kModel);
  const StageTimes ours = times_of(same, kAll, 1e6, 1e6), theirs = times_of(kModel, kAll, 1e6, 1e6);
  EXPECT_EQ(ours.forward, theirs.forward);
  EXPECT_EQ(ours.backward, theirs.backward);
  EXPECT_EQ(ours.update, theirs.update);
  EXPECT_EQ(parameter_count(same), parameter_count(kModel));
}

TEST(Analytic, HeadsOfKeysAndValuesAreSharedEvenly) {
  AnalyticAssumptions two = exactly();
  two.tensor = 2;
  try {
    analytic_stage_bytes(kLlama, kAll, 1, OptimizerKind::adamw, Recompute::none, two);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "model unnamed: 2 heads, 1 of them of keys and values, can't be shared evenly by "
                 "the 2 devices of --tensor");
  }
}

TEST(Analytic, WhatItCannotPriceItSays) {
  const auto error = [](const ModelSpec& model, NumberFormat format) -> std::string {
    try {
      analytic_layers(model, 1, Recompute::none, OptimizerKind::adamw, device(1e-3, 1),
                      exactly(format));
    } catch (const InputError& thrown) {
      return thrown.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error(kModel, NumberFormat::bf16),
            "card has no peak for bf16: give a --dtype that it has");
  EXPECT_EQ(error(kModel, NumberFormat::fp32),
            "a layer would take 2.05e+06 s for a microbatch: expected at most a day");
  AnalyticAssumptions thirds = exactly();
  thirds.tensor = 3;
  EXPECT_THROW(analytic_stage_bytes(kModel, kAll, 1, OptimizerKind::adamw, Recompute::none, thirds),
               InputError);
  ModelSpec linear = kModel;
  linear.architecture = Architecture::linear;
  EXPECT_EQ(error(linear, NumberFormat::fp32),
            "model unnamed: a chain of linear maps has no analytic costs: give a profile");
}

}  // namespace
}  // namespace tandem
