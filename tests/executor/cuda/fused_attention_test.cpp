// cuDNN's attention against the double kernels of the CPU, on the first GPU.

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/kernels.h"
#include "tests/executor/cuda/gpu_machine.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {
namespace {

struct Attended {
  std::vector<Bf16> y, dqkv;
  std::vector<float> log_sum;
};

struct Inputs {
  AttentionShape shape;
  std::int64_t rows = shape.batch * shape.sequence;
  std::vector<Bf16> qkv = numbers_of<Bf16>(rows * 3 * shape.width, 1);
  std::vector<Bf16> dy = numbers_of<Bf16>(rows * shape.width, 2);
};

Attended attend_on_gpu(const Inputs& inputs, KernelContext& context) {
  const GpuMachine machine(1);
  const auto& [shape, rows, qkv0, dy0] = inputs;
  const auto qkv = machine.put(qkv0), dy = machine.put(dy0);
  const auto y = machine.poisoned<Bf16>(rows * shape.width),
             dqkv = machine.poisoned<Bf16>(rows * 3 * shape.width);
  const auto log_sum = machine.poisoned<float>(rows * shape.heads);
  EXPECT_TRUE(context.attend(shape, {qkv.in(), log_sum.out(), y.out()}));
  EXPECT_TRUE(
      context.attend_backward(shape, {qkv.in(), log_sum.in(), y.in(), dy.in(), dqkv.out()}));
  return {machine.get(y), machine.get(dqkv), machine.get(log_sum)};
}

class FusedAttentionOf : public ::testing::TestWithParam<AttentionShape> {};

TEST_P(FusedAttentionOf, IsTheCpusButForRounding) {
  if (const auto why = GpuMachine::why_absent()) GTEST_SKIP() << *why;
  const FoundAttention found = find_fused_attention(GetParam());
  if (!found.plans) GTEST_SKIP() << found.why_absent;
  KernelContext context(nullptr, {.products = {}, .workspace = 0, .fused_attention = {GetParam()}});
  const Inputs inputs{GetParam()};
  const auto& [shape, rows, qkv, dy] = inputs;
  const Attended got = attend_on_gpu(inputs, context);
  const auto in_y = static_cast<std::size_t>(rows * shape.width);
  std::vector<double> y(in_y), dqkv(3 * in_y),
      log_sum(static_cast<std::size_t>(rows * shape.heads));
  const cpu::Kernels<double> oracle;
  const auto wide_qkv = widen(qkv);
  oracle.attention(shape, {wide_qkv, log_sum, y});
  oracle.attention_backward(shape, {wide_qkv, log_sum, y, widen(dy), dqkv});
  EXPECT_LT(relative_error(got.y, y), kTolerance<Bf16>);
  EXPECT_LT(relative_error(got.log_sum, log_sum), 1e-5);
  EXPECT_LT(relative_error(got.dqkv, dqkv), kTolerance<Bf16>);
  const Attended again = attend_on_gpu(inputs, context);
  EXPECT_EQ(again.y, got.y);
  EXPECT_EQ(again.dqkv, got.dqkv);
}

INSTANTIATE_TEST_SUITE_P(FusedAttention, FusedAttentionOf,
                         ::testing::Values(AttentionShape{2, 128, 3, 192},
                                           AttentionShape{1, 200, 2, 256},
                                           AttentionShape{3, 72, 4, 128}));

TEST(FusedAttention, IsOfItsShapeAlone) {
  if (const auto why = GpuMachine::why_absent()) GTEST_SKIP() << *why;
  const AttentionShape shape{2, 128, 3, 192}, other{1, 128, 3, 192};
  if (const FoundAttention found = find_fused_attention(shape); !found.plans)
    GTEST_SKIP() << found.why_absent;
  KernelContext context(nullptr, {.products = {}, .workspace = 0, .fused_attention = {shape}});
  EXPECT_FALSE(context.attend(other, {}));
  KernelContext without(nullptr, {.products = {}, .workspace = 0});
  EXPECT_FALSE(without.attend(shape, {}));
}

TEST(FusedAttention, SaysWhyAShapeHasNone) {
  if (const auto why = GpuMachine::why_absent()) GTEST_SKIP() << *why;
  // Heads of 5 channels: no multiple of 8.
  const FoundAttention found = find_fused_attention({1, 16, 1, 5});
  EXPECT_EQ(found.plans, nullptr);
  EXPECT_NE(found.why_absent, "");
}

}  // namespace
}  // namespace tandem::cuda::testing
