#pragma once
// A GPU as a machine of the tests (machines.h): the first there is.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "executor/cuda/kernels/gpu_grid.h"
#include "executor/cuda/runtime/check.h"
#include "tests/executor/cuda/cpu_grid.h"

namespace tandem::cuda::testing {

struct FreeOfDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

/// Of the device: the host puts what it copies there, and gets copies.
template <class T>
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t size) : size_(size) {
    void* first = nullptr;
    if (size == 0) return;
    check(cudaMalloc(&first, size * sizeof(T)), "cudaMalloc");
    memory_.reset(first);
    check(cudaMemset(first, kPoison, size * sizeof(T)), "cudaMemset");
  }
  std::span<T> out() const { return {static_cast<T*>(memory_.get()), size_}; }
  std::span<const T> in() const { return out(); }

 private:
  std::unique_ptr<void, FreeOfDevice> memory_;
  std::size_t size_;
};

class GpuMachine {
 public:
  /// Twice the same.
  static std::vector<int> runs() { return {1, 2}; }
  static std::optional<std::string> why_absent() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return std::nullopt;
    return std::string("no GPU: ") + cudaGetErrorString(status);
  }

  explicit GpuMachine(int /*run*/)
      : workspace_(std::size_t{64} << 20), grid_(nullptr, workspace_.out()) {}
  GpuGrid& grid() { return grid_; }

  template <class T>
  GpuMemory<T> put(const std::vector<T>& values) const {
    GpuMemory<T> memory(values.size());
    check(cudaMemcpy(memory.out().data(), values.data(), values.size() * sizeof(T),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
    return memory;
  }
  template <class T>
  GpuMemory<T> poisoned(std::int64_t size) const {
    return GpuMemory<T>(static_cast<std::size_t>(size));
  }
  template <class T>
  std::vector<T> get(const GpuMemory<T>& memory) const {
    std::vector<T> values(memory.in().size());
    check(cudaMemcpy(values.data(), memory.in().data(), values.size() * sizeof(T),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy from the device");
    return values;
  }

 private:
  GpuMemory<std::byte> workspace_;
  GpuGrid grid_;
};

}  // namespace tandem::cuda::testing
