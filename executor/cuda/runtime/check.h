#pragma once
// CUDA's errors as exceptions.

#include <cuda_runtime_api.h>

namespace tandem::cuda {

/// Throws DeviceError with the call, the GPU and CUDA's words for it, unless it went well;
/// LateError where it is something that ran on the GPU that failed, which any later call reports.
void check(cudaError_t status, const char* call);

/// Of a call about whose failure there is nothing to do. CUDA keeps it, and the next kernel would
/// be blamed.
void forget(cudaError_t status);

}  // namespace tandem::cuda
