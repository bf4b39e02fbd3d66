#include "executor/cuda/runtime/check.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/backend/notice.h"

namespace tandem::cuda {
namespace {

/// Of kernels and copies on their way, whatever call it is that returns it. From then on the GPU
/// refuses all calls of this process.
constexpr std::array kOfRunningWork{cudaErrorAssert,
                                    cudaErrorECCUncorrectable,
                                    cudaErrorHardwareStackError,
                                    cudaErrorIllegalAddress,
                                    cudaErrorIllegalInstruction,
                                    cudaErrorInvalidAddressSpace,
                                    cudaErrorInvalidPc,
                                    cudaErrorLaunchFailure,
                                    cudaErrorLaunchTimeout,
                                    cudaErrorMisalignedAddress,
                                    cudaErrorNvlinkUncorrectable};

/// " on GPU 1": the calling thread's; nothing where there is none.
std::string where() {
  int gpu = -1;
  return cudaGetDevice(&gpu) == cudaSuccess ? fmt::format(" on GPU {}", gpu) : std::string();
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  std::string what = fmt::format("{}{}: {} ({})", call, where(), cudaGetErrorString(status),
                                 cudaGetErrorName(status));
  if (std::ranges::find(kOfRunningWork, status) != kOfRunningWork.end())
    throw LateError(std::move(what));
  throw DeviceError(std::move(what));
}

void forget(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace tandem::cuda
