// A model on the first GPU, and what a context refuses.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/workspace.h"
#include "tests/executor/cuda/gpu_machine.h"
#include "tests/executor/cuda/training_step.h"

namespace tandem::cuda::testing {
namespace {

TEST(KernelContext, TrainsATransformerOnAGpu) {
  if (const auto why = GpuMachine::why_absent()) GTEST_SKIP() << *why;
  const ModelSpec model = tandem::testing::tiny_gpt();
  const auto expected =
      train(model, Recompute::none, cpu::Kernels<double>(), CpuMachine(Order::ascending));
  for (const char* engine : {"cublaslt", "portable"}) {
    for (const bool rounds : {false, true}) {
      KernelContext context(
          nullptr,
          {.products = {engine, rounds ? cpu::Precision::bf16 : cpu::Precision::f32},
           .workspace = workspace_needed(model, kMicrobatchSize, OptimizerKind::adamw, rounds)});
      expect_near(train(model, Recompute::none, Kernels<float>(context), GpuMachine(1)), expected,
                  rounds);
    }
    KernelContext context(nullptr, {.products = {engine, cpu::Precision::f32},
                                    .workspace = workspace_needed(model, kMicrobatchSize,
                                                                  OptimizerKind::adamw, false)});
    expect_near(train(model, Recompute::none, Kernels<Bf16>(context), GpuMachine(1)), expected,
                true);
  }
}

TEST(KernelContext, RefusesAnEngineThatItDoesNotKnow) {
  EXPECT_THROW(KernelContext(nullptr, {.products = {"onednn"}}), UsageError);
}

}  // namespace
}  // namespace tandem::cuda::testing
