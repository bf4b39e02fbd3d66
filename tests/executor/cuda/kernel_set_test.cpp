// A whole model over the kernels of a GPU, run on the CPU: what they are given by layers and
// optimizers, and how much workspace they ask for.

#include "executor/cuda/kernels/kernel_set.h"

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/workspace.h"
#include "tests/executor/cuda/cpu_context.h"
#include "tests/executor/cuda/machines.h"
#include "tests/executor/cuda/training_step.h"

namespace tandem::cuda::testing {
namespace {

using GpuKernels = KernelSet<CpuContext>;
using Bf16Kernels = KernelSet<CpuContext, Bf16>;
static_assert(tandem::Kernels<GpuKernels> && tandem::Kernels<Bf16Kernels>);

void expect_trains_alike(const ModelSpec& model, Recompute recompute, bool rounds) {
  CpuMachine machine(Order::ascending);
  const auto expected = train(model, recompute, cpu::Kernels<double>(), machine);
  const Bytes needed = workspace_needed(model, kMicrobatchSize, rounds);
  for (const bool fuses : {true, false}) {
    CpuContext context(rounds, fuses);
    expect_near(train(model, recompute, GpuKernels(context), machine), expected, rounds);
    EXPECT_LE(context.most_workspace(), needed);
    // Separate kernels need what is needed, but for what alignment may take, and squares of more
    // tensors than are summed here.
    if (!fuses) {
      EXPECT_GT(context.most_workspace(), needed - 300 - sums_workspace_needed(model));
    }
  }
}

TEST(KernelSet, TrainsATransformer) {
  const ModelSpec model = tandem::testing::tiny_gpt();
  expect_trains_alike(model, Recompute::none, false);
  expect_trains_alike(model, Recompute::selective, false);
  expect_trains_alike(model, Recompute::none, true);
}

void expect_trains_in_bf16(const ModelSpec& model, Recompute recompute) {
  CpuMachine machine(Order::ascending);
  const auto expected = train(model, recompute, cpu::Kernels<double>(), machine);
  for (const bool fuses : {true, false}) {
    CpuContext context(false, fuses);
    expect_near(train(model, recompute, Bf16Kernels(context), machine), expected, true);
    EXPECT_LE(context.most_workspace(), workspace_needed(model, kMicrobatchSize, false));
  }
}

// Odd sizes, too: what is float in a stash must be aligned as floats are.
TEST(KernelSet, TrainsModelsStoredInBfloat16) {
  ModelSpec odd = tandem::testing::tiny_gpt();
  odd.vocabulary = 13;
  odd.sequence = 5;
  odd.heads = 3;
  odd.width = 9;
  for (const ModelSpec& model :
       {tandem::testing::tiny_gpt(), odd, tandem::testing::tiny_linear()}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
      expect_trains_in_bf16(model, recompute);
    }
  }
}

TEST(KernelSet, TrainsALinearModel) {
  expect_trains_alike(tandem::testing::tiny_linear(), Recompute::none, false);
}

TEST(KernelSet, AsksForWorkspaceByTheModel) {
  struct Sizes {
    std::int32_t vocabulary, sequence, heads, width;
  };
  // What asks for most without rounding: losses, attention, losses again, sums over rows.
  for (const Sizes& sizes :
       {Sizes{300, 6, 2, 8}, {11, 70, 8, 8}, {11, 200, 1, 8}, {11, 6, 1, 32}}) {
    ModelSpec model = tandem::testing::tiny_gpt();
    model.vocabulary = sizes.vocabulary;
    model.sequence = sizes.sequence;
    model.heads = sizes.heads;
    model.width = sizes.width;
    expect_trains_alike(model, Recompute::none, false);
    expect_trains_alike(model, Recompute::none, true);
  }
}

TEST(KernelSetDeathTest, AbortsOnTokensThatCannotBe) {
  CpuContext context(false);
  const GpuKernels kernels(context);
  const std::vector<std::int32_t> tokens{-1}, targets{3};
  std::vector<float> x(3);
  EXPECT_DEATH(kernels.keep_tokens(tokens, std::span(x).first(1)), "check failed.*values: -1");
  EXPECT_DEATH(kernels.cross_entropy({.rows = 1, .width = 3}, targets, 1.0, x, nullptr),
               "check failed.*values: 3 3");
}

}  // namespace
}  // namespace tandem::cuda::testing
