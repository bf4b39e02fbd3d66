// Products in fp8, the rest in bf16: times and bytes by hand.

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "simulator/cost/analytic.h"
#include "tests/simulator/exactly.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::exactly;

// 8 tokens, 32 elements, 128 inside the mlp; its two matrices have 64 elements each.
const ModelSpec kModel{.blocks = 1, .width = 4, .heads = 2, .sequence = 8, .vocabulary = 16};
constexpr LayerRange kAttention{1, 2}, kMlp{2, 3}, kHead{3, 4};
constexpr double kWhatever = 1e30;

DeviceSpec device(double bf16, double fp8, double bytes_per_s) {
  DeviceSpec device{.name = "card", .memory_bytes_per_s = bytes_per_s};
  device.flops_per_s[static_cast<std::size_t>(NumberFormat::bf16)] = bf16;
  device.flops_per_s[static_cast<std::size_t>(NumberFormat::fp8)] = fp8;
  return device;
}

StageTimes times(LayerRange range, NumberFormat format, const DeviceSpec& card) {
  return analytic_layers(kModel, 1, Recompute::none, OptimizerKind::adamw, card, exactly(format))
      .of(range);
}

StageBytes bytes(LayerRange range, NumberFormat format) {
  return analytic_stage_bytes(kModel, range, 1, OptimizerKind::adamw, Recompute::none,
                              exactly(format));
}

TEST(Fp8, IsForProductsWithWeightsOfBlocksAlone) {
  const DeviceSpec card = device(1e6, 2e6, kWhatever);
  const auto of = [&](LayerRange range) { return times(range, NumberFormat::fp8, card); };
  // 1024 flops of projections at twice the rate, 1024 of the core's.
  EXPECT_EQ(of(kAttention).forward, microseconds(512 + 1024));
  EXPECT_EQ(of(kAttention).backward_input, microseconds(512 + 2048));
  EXPECT_EQ(of(kAttention).backward_weight, microseconds(512));
  EXPECT_EQ(of(kMlp).forward, microseconds(1024));
  EXPECT_EQ(of(kMlp).backward_weight, microseconds(1024));
  EXPECT_EQ(of(kHead).forward, microseconds(1024));
}

TEST(Fp8, ReadsAByteANumberOfWhatIsCastBefore) {
  const DeviceSpec card = device(kWhatever, kWhatever, 1e6);
  // Norm, two products, activation, residual.
  EXPECT_EQ(times(kMlp, NumberFormat::bf16, card).forward,
            microseconds(128 + 2 * (32 + 64 + 128) + 512 + 2 * (128 + 64 + 32) + 224));
  EXPECT_EQ(
      times(kMlp, NumberFormat::fp8, card).forward,
      microseconds(128 + 4 * 32 + (32 + 64 + 2 * 128) + 512 + 4 * 128 + (128 + 64 + 2 * 32) + 224));
  // Both gradients are cast once, for both halves; gradients of weights are read and written.
  EXPECT_EQ(times(kMlp, NumberFormat::fp8, card).backward_weight,
            microseconds((32 + 128 + 4 * 64) + (128 + 32 + 4 * 64)));
  const auto update = [&](NumberFormat format) { return times(kMlp, format, card).update; };
  constexpr int kParameters = 2 * 64 + 16 + 4 + 8;
  EXPECT_EQ(update(NumberFormat::fp8) - update(NumberFormat::bf16), microseconds(4 * kParameters));
}

TEST(Fp8, HoldsWeightsTwiceMoreAndLessOfAnMlp) {
  const auto difference = [](LayerRange range, SlotKind slot) {
    return bytes(range, NumberFormat::fp8)[slot] - bytes(range, NumberFormat::bf16)[slot];
  };
  EXPECT_EQ(difference(kMlp, SlotKind::weights), 2 * (2 * 64 + 16 + 4 + 8));
  EXPECT_EQ(difference(kMlp, SlotKind::gradients), 0);
  EXPECT_EQ(difference(kMlp, SlotKind::stash), -(32 + 128));
  // The output of the norm takes less, but the weighted values are there twice.
  EXPECT_EQ(difference(kAttention, SlotKind::stash), 0);
  EXPECT_EQ(difference(kHead, SlotKind::weights), 0);
  EXPECT_EQ(difference(kMlp, SlotKind::input), 0);
}

TEST(Fp8, IsRefusedWhereADeviceHasNoUnitsForIt) {
  const auto error = [](const DeviceSpec& card) -> std::string {
    try {
      times(kMlp, NumberFormat::fp8, card);
      return "nothing";
    } catch (const InputError& refused) {
      return refused.what();
    }
  };
  EXPECT_EQ(error(device(1e6, 0.0, 1e6)), "card has no peak for fp8: give a --dtype that it has");
  EXPECT_EQ(error(device(0.0, 1e6, 1e6)), "card has no peak for bf16: give a --dtype that it has");
  EXPECT_EQ(error(device(1e6, 1e6, 1e6)), "nothing");
}

}  // namespace
}  // namespace tandem
