#pragma once
// What CUDA gives, owned: memory of a device, memory of the host that devices reach, streams and
// events. Errors while freeing are not reported: there is nothing left to do.

#include <cstddef>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "core/base/units.h"
#include "executor/cuda/runtime/check.h"

namespace tandem::cuda {

/// Gives back by a function of CUDA's.
template <auto kFree>
struct FreedBy {
  void operator()(auto* owned) const { forget(kFree(owned)); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreedBy<cudaFree>>;

/// On the current device, zeros.
inline DeviceMemory allocate_zeros(Bytes bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  const std::string call = "cudaMalloc of " + print_bytes(bytes);
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), call.c_str());
  DeviceMemory owned(static_cast<std::byte*>(memory));
  check(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "cudaMemset");
  // For memset may return before it has run, and streams of ours do not wait for it.
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return owned;
}

/// Of a GPU, which becomes the current device; its context is made if it has none.
inline Bytes free_memory(int gpu) {
  std::size_t free = 0, total = 0;
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<Bytes>(free);
}

using PinnedMemory = std::unique_ptr<std::byte, FreedBy<cudaFreeHost>>;

/// Of the host, at the same address for it and for every device.
inline PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const std::string call = "cudaHostAlloc of " + print_bytes(static_cast<Bytes>(bytes));
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), call.c_str());
  return PinnedMemory(static_cast<std::byte*>(memory));
}

using OwnedStream = std::unique_ptr<CUstream_st, FreedBy<cudaStreamDestroy>>;
using OwnedEvent = std::unique_ptr<CUevent_st, FreedBy<cudaEventDestroy>>;

/// Of the current device. `flags`: cudaEventDisableTiming where only order counts.
inline OwnedEvent make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return OwnedEvent(event);
}

}  // namespace tandem::cuda
