#pragma once
// CUDA's errors as exceptions.

#include <cuda_runtime_api.h>

namespace tandem::cuda {

/// Throws DeviceError with the call, the GPU and CUDA's words for it, unless it went well;
/// LateError where it is something that ran on the GPU that failed, which any later call reports.
void check(cudaError_t status, const char* call);

}  // namespace tandem::cuda
