#pragma once
// How a GPU runs a body (block.h): a block of the grid is a block of CUDA, a phase ends at a
// barrier. For nvcc alone.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "executor/cuda/kernels/gpu_grid.h"
#include "executor/cuda/runtime/check.h"

namespace tandem::cuda {

class GpuBlock {
 public:
  __device__ explicit GpuBlock(std::byte* memory) : memory_(memory) {}

  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::int64_t blocks() const { return gridDim.x; }
  __device__ static constexpr int threads() { return kThreads; }

  template <class Phase>
  __device__ void each_thread(const Phase& phase) {
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
  }

  template <class T>
  __device__ T* shared(std::int64_t count) {
    T* first = reinterpret_cast<T*>(memory_);
    memory_ += shared_bytes<T>(count);
    return first;
  }

  /// A thread sees its own alone.
  template <class T>
  struct PerThread {
    mutable T value;
    __device__ T& operator[](int /*thread*/) const { return value; }
  };
  template <class T>
  __device__ PerThread<T> per_thread() {
    return {};
  }

  template <class T>
  __device__ void sum_lanes(const PerThread<T>& x) const {
    constexpr unsigned kAll = 0xFFFFFFFFU;
    for (int half = kLanes / 2; half > 0; half /= 2)
      x.value += __shfl_xor_sync(kAll, x.value, half);
  }

  /// Nobody writes the place again before all have read it.
  template <class T>
  __device__ T read(const T& place) const {
    const T value = place;
    __syncthreads();
    return value;
  }

 private:
  std::byte* memory_;
};

template <class Body>
__global__ void __launch_bounds__(kThreads) run_body(const Body body) {
  extern __shared__ __align__(16) std::byte memory[];
  GpuBlock block(memory);
  body(block);
}

/// Neither inlined nor left out: compilers that know no GPU leave it to the one that does.
template <class Body>
[[gnu::noinline, gnu::used]] void GpuGrid::run(const GridShape& shape, const Body& body) {
  if (shape.blocks == 0) return;
  constexpr std::int64_t kUnasked = 48 << 10;  // a block may have more, but must ask
  if (shape.shared_bytes > kUnasked) {
    check(cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          "cudaFuncSetAttribute: shared memory of a block");
  }
  run_body<<<static_cast<unsigned>(shape.blocks), kThreads,
             static_cast<std::size_t>(shape.shared_bytes), stream_>>>(body);
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace tandem::cuda
