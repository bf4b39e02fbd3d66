// A whole model over the kernels of a GPU, run on the CPU: what they are given by layers and
// optimizers, and how much workspace they ask for.

#include "executor/cuda/kernels/kernel_set.h"

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/workspace.h"
#include "executor/stage/muon.h"
#include "tests/executor/cuda/cpu_context.h"
#include "tests/executor/cuda/machines.h"
#include "tests/executor/cuda/training_step.h"
#include "tests/support/sanitizers.h"

namespace tandem::cuda::testing {
namespace {

using GpuKernels = KernelSet<CpuContext>;
using Bf16Kernels = KernelSet<CpuContext, Bf16>;
static_assert(tandem::Kernels<GpuKernels> && tandem::Kernels<Bf16Kernels>);

void expect_trains_alike(const ModelSpec& model, Recompute recompute, bool rounds) {
  CpuMachine machine(Order::ascending);
  const auto expected = train(model, recompute, cpu::Kernels<double>(), machine);
  const Bytes needed = workspace_needed(model, kMicrobatchSize, OptimizerKind::adamw, rounds);
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

TEST(KernelSet, TrainsLlamasLayers) {
  for (const ModelSpec& model : {tandem::testing::tiny_llama(), tandem::testing::tiny_llama(true),
                                 tandem::testing::tiny_qwen()}) {
    SCOPED_TRACE(model.name);
    expect_trains_alike(model, Recompute::none, false);
    expect_trains_alike(model, Recompute::selective, false);
    expect_trains_alike(model, Recompute::none, true);
  }
}

void expect_trains_in_bf16(const ModelSpec& model, Recompute recompute) {
  CpuMachine machine(Order::ascending);
  const auto expected = train(model, recompute, cpu::Kernels<double>(), machine);
  for (const bool fuses : {true, false}) {
    CpuContext context(false, fuses);
    expect_near(train(model, recompute, Bf16Kernels(context), machine), expected, true);
    EXPECT_LE(context.most_workspace(),
              workspace_needed(model, kMicrobatchSize, OptimizerKind::adamw, false));
  }
}

// Odd sizes, too: what is float in a stash must be aligned as floats are.
TEST(KernelSet, TrainsModelsStoredInBfloat16) {
  ModelSpec odd = tandem::testing::tiny_gpt();
  odd.vocabulary = 13;
  odd.sequence = 5;
  odd.heads = 3;
  odd.width = 9;
  for (const ModelSpec& model : {tandem::testing::tiny_gpt(), odd, tandem::testing::tiny_linear(),
                                 tandem::testing::tiny_llama(), tandem::testing::tiny_qwen()}) {
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
    if (::tandem::testing::kSanitized && sizes.sequence > 100) continue;  // a quarter of a minute
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

/// How far a matrix's step is from that of the CPU in double, of what it moves.
template <class A>
double distance_of_matrix_step(MatmulShape matrix) {
  const std::int64_t count = matrix.inner * matrix.columns;
  const auto weights = random_numbers<float>(count, 1), gradient = random_numbers<float>(count, 2);
  std::vector<float> mean = random_numbers<float>(count, 3), made(weights.size());
  std::vector<double> exact_mean = widen(mean), expected(weights.size());
  const StepNumbers numbers{.learning_rate = 0.1, .weight_decay = 0.1, .beta1 = 0.95};
  const auto room_of = [&]<class T, class W>(T /*of*/, W /*wide*/) {
    return std::vector<T>(static_cast<std::size_t>(OrthogonalScratch<T, W>::elements(matrix)));
  };
  auto exact_room = room_of(0.0, 0.0);
  const cpu::Kernels<double> oracle;
  const std::vector<double> exact_weights = widen(weights), exact_gradient = widen(gradient);
  step_matrix(oracle, matrix, MuonScale::original,
              StepSpans<double>{.weights = exact_weights,
                                .gradient = exact_gradient,
                                .first = exact_mean,
                                .weights_out = expected},
              numbers, std::span<double>(exact_room));
  CpuContext context(false);
  const KernelSet<CpuContext, A> kernels(context);
  auto room = room_of(A{}, 0.0F);
  step_matrix(kernels, matrix, MuonScale::original,
              StepSpans<A, float>{
                  .weights = weights, .gradient = gradient, .first = mean, .weights_out = made},
              numbers, std::span<A>(room));
  EXPECT_LT(relative_error(mean, exact_mean), 1e-6);
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] -= weights[i];
    expected[i] -= exact_weights[i];
  }
  return relative_error(made, expected);
}

TEST(KernelSet, StepsWholeMatrices) {
  for (const MatmulShape& matrix :
       {MatmulShape{.inner = 12, .columns = 33}, MatmulShape{.inner = 41, .columns = 9}}) {
    EXPECT_LT(distance_of_matrix_step<float>(matrix), 1e-5);
    // In bfloat16 the iteration itself is, as torch's is.
    EXPECT_LT(distance_of_matrix_step<Bf16>(matrix), 3e-2);
    EXPECT_GT(distance_of_matrix_step<Bf16>(matrix), 1e-4);
  }
}

// Float factors of its products are rounded in the workspace, where these are to be bfloat16.
TEST(KernelSet, AsksForWorkspaceByTheOptimizer) {
  ModelSpec model = tandem::testing::tiny_gpt();
  model.width = 64;
  model.sequence = 1;
  const auto needed = [&](OptimizerKind kind) { return workspace_needed(model, 1, kind, true); };
  CpuContext context(true);
  const GpuKernels kernels(context);
  const MatmulShape matrix{.inner = 4 * 64, .columns = 64};
  std::vector<float> scratch(
      static_cast<std::size_t>(OrthogonalScratch<float, float>::elements(matrix)));
  const OrthogonalScratch<float, float> at(scratch, matrix);
  orthogonalise(kernels, matrix, at);
  EXPECT_LE(context.most_workspace(), needed(OptimizerKind::muon));
  EXPECT_GT(context.most_workspace(), needed(OptimizerKind::adamw));
}

}  // namespace
}  // namespace tandem::cuda::testing
