#include "executor/cuda/check.h"

#include <fmt/format.h>

#include "core/error.h"

namespace tandem::cuda {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw DeviceError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
  }
}

}  // namespace tandem::cuda
