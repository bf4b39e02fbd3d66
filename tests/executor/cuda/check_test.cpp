// Errors of CUDA say which call and which GPU, and whether it may have been earlier work.

#include "executor/cuda/runtime/check.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/backend/notice.h"

namespace tandem::cuda {
namespace {

struct Failure {
  std::string what;
  bool late = false;
};

std::optional<Failure> failure_of(cudaError_t status) {
  try {
    check(status, "cudaCall");
  } catch (const LateError& error) {
    return Failure{error.what(), true};
  } catch (const DeviceError& error) {
    return Failure{error.what(), false};
  }
  return std::nullopt;
}

TEST(Check, NamesCallGpuAndError) {
  EXPECT_FALSE(failure_of(cudaSuccess));
  const auto failure = failure_of(cudaErrorMemoryAllocation);
  ASSERT_TRUE(failure);
  int gpu = -1;
  const std::string where =
      cudaGetDevice(&gpu) == cudaSuccess ? " on GPU " + std::to_string(gpu) : "";
  EXPECT_EQ(failure->what, "cudaCall" + where + ": out of memory (cudaErrorMemoryAllocation)");
  EXPECT_FALSE(failure->late);
}

TEST(Check, TellsWhatRanFromWhatWasCalled) {
  for (const cudaError_t status :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress,
        cudaErrorECCUncorrectable, cudaErrorAssert}) {
    const auto failure = failure_of(status);
    ASSERT_TRUE(failure);
    EXPECT_TRUE(failure->late) << failure->what;
  }
  for (const cudaError_t status : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration,
                                   cudaErrorInvalidResourceHandle, cudaErrorNoDevice}) {
    const auto failure = failure_of(status);
    ASSERT_TRUE(failure);
    EXPECT_FALSE(failure->late) << failure->what;
  }
}

}  // namespace
}  // namespace tandem::cuda
