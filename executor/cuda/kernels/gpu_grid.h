#pragma once
// A stream of a GPU as the grid that kernels are queued on (block.h). Plain C++ may call kernels on
// it: those of kernels.cu are compiled.

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "core/base/check.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

class GpuGrid {
 public:
  /// `workspace`: memory of the device that nothing but kernels on this stream touches, aligned as
  /// cudaMalloc() does.
  GpuGrid(cudaStream_t stream, std::span<std::byte> workspace)
      : stream_(stream), workspace_(workspace) {}

  /// Queues the body. Throws DeviceError where CUDA refuses. Defined in gpu_grid.cuh.
  template <class Body>
  void run(const GridShape& shape, const Body& body);

  /// REQUIRES: the workspace is large enough (checked); kernels say what they need.
  template <class T>
  T* workspace(std::int64_t count) const {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    TANDEM_CHECK(bytes <= workspace_.size(), bytes, workspace_.size());
    return reinterpret_cast<T*>(workspace_.data());
  }

  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_;
  std::span<std::byte> workspace_;
};

}  // namespace tandem::cuda
