// The kernels of executor/cuda on the CPU, threads and blocks in three orders.

#include <vector>

#include <gtest/gtest.h>

#include "tests/executor/cuda/kernel_tests.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {
namespace {

using Settings = ::testing::Types<Setting<CpuMachine, float>, Setting<CpuMachine, Bf16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OnCpu, CudaKernels, Settings);

TEST(RelativeError, SeesWhatIsWrong) {
  const std::vector<double> expected{3.0, 4.0};
  EXPECT_EQ(relative_error(std::vector<float>{3.0F, 4.0F}, expected), 0.0);
  EXPECT_NEAR(relative_error(std::vector<float>{3.0F, 4.0002F}, expected), 4e-5, 1e-6);
  EXPECT_FALSE(relative_error(std::vector<float>{3.0F}, expected) < 1.0);
  CpuMachine machine(Order::ascending);
  EXPECT_FALSE(relative_error(machine.get(machine.poisoned<Bf16>(2)), expected) < 1.0);
}

}  // namespace
}  // namespace tandem::cuda::testing
