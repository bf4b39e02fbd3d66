#pragma once
// CUDA's errors as exceptions.

#include <cuda_runtime_api.h>

namespace tandem::cuda {

/// Throws DeviceError with the call and CUDA's words for it, unless it went well.
void check(cudaError_t status, const char* call);

}  // namespace tandem::cuda
