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

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;

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

struct FreePinnedMemory {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
using PinnedMemory = std::unique_ptr<std::byte, FreePinnedMemory>;

/// Of the host, at the same address for it and for every device.
inline PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const std::string call = "cudaHostAlloc of " + print_bytes(static_cast<Bytes>(bytes));
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), call.c_str());
  return PinnedMemory(static_cast<std::byte*>(memory));
}

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedStream = std::unique_ptr<CUstream_st, DestroyStream>;

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using OwnedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

/// Of the current device. `flags`: cudaEventDisableTiming where only order counts.
inline OwnedEvent make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return OwnedEvent(event);
}

}  // namespace tandem::cuda
