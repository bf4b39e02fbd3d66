// CUDA's functions that tandem calls, on the machine of recorder.h.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "tests/executor/cuda/recorded/recorder.h"

namespace tandem::cuda::recorded {
namespace {

constexpr int kVersion = 13000;

template <class Work>
cudaError_t called(const char* name, unsigned kind, const Work& work) {
  return recorder().call(name, kind, work);
}

/// Of the driver, whose errors are numbered otherwise, and are no last ones of the runtime's.
template <class Work>
CUresult driver_called(const char* name, unsigned kind, const Work& work) {
  const cudaError_t status = called(name, kind | kIsOfLibrary, work);
  if (status == cudaSuccess) return CUDA_SUCCESS;
  return status == cudaErrorMemoryAllocation ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

template <class T>
auto stores(T* place, T value) {
  return [place, value](Recorder&) {
    *place = value;
    return cudaSuccess;
  };
}

struct Function {
  std::string_view name;
  void* address;
};

template <class F>
Function function(const char* name, F* address) {
  return {name, reinterpret_cast<void*>(address)};
}

}  // namespace
}  // namespace tandem::cuda::recorded

using namespace tandem::cuda::recorded;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return error == cudaErrorUnknown ? "cudaErrorUnknown" : "another error";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "as was asked for";
}

cudaError_t cudaGetLastError() { return recorder().take_last_error(); }

cudaError_t cudaDriverGetVersion(int* version) {
  return called("cudaDriverGetVersion", kAsks, stores(version, kVersion));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return called("cudaRuntimeGetVersion", kAsks, stores(version, kVersion));
}

cudaError_t cudaGetDeviceCount(int* count) {
  return called("cudaGetDeviceCount", kAsks, [count](Recorder& machine) {
    *count = machine.setup().gpus;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return called("cudaGetDeviceProperties", kAsks, [properties, device](Recorder&) {
    std::strcpy(properties->name, "a pretended GPU");
    properties->uuid = {};
    properties->uuid.bytes[0] = static_cast<char>(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::array kFunctions{
      function("cuDeviceGetDevResource", cuDeviceGetDevResource),
      function("cuDevSmResourceSplitByCount", cuDevSmResourceSplitByCount),
      function("cuDevResourceGenerateDesc", cuDevResourceGenerateDesc),
      function("cuGreenCtxCreate", cuGreenCtxCreate),
      function("cuGreenCtxDestroy", cuGreenCtxDestroy),
      function("cuGreenCtxStreamCreate", cuGreenCtxStreamCreate)};
  return called("cudaGetDriverEntryPointByVersion", kAsks, [&](Recorder& machine) {
    *result = cudaDriverEntryPointSymbolNotFound;
    for (const Function& each : kFunctions) {
      if (!machine.setup().has_green_contexts || each.name != name) continue;
      *found = each.address;
      *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return called("cudaSetDevice", kAsks,
                [device](Recorder& machine) { return machine.set_device(device); });
}

cudaError_t cudaGetDevice(int* device) {
  return called("cudaGetDevice", kIsOfHost, [device](Recorder& machine) {
    *device = machine.device();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return called("cudaDeviceSynchronize", kNeedsDevice | kFinishes,
                [](Recorder& machine) { return machine.finish_device(); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
  return called("cudaDeviceCanAccessPeer", kAsks, stores(can, 1));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  return called("cudaDeviceEnablePeerAccess", kNeedsDevice,
                [peer](Recorder& machine) { return machine.enable_peer(peer); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return called("cudaDeviceGetStreamPriorityRange", kNeedsDevice, [=](Recorder&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return called("cudaMalloc", kMakes | kNeedsDevice,
                [=](Recorder& machine) { return machine.allocate(memory, bytes, false); });
}

cudaError_t cudaFree(void* memory) {
  return called("cudaFree", memory == nullptr ? kNeedsDevice : kDestroys,
                [memory](Recorder& machine) { return machine.release(memory, false); });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return called("cudaHostAlloc", kMakes | kNeedsDevice,
                [=](Recorder& machine) { return machine.allocate(memory, bytes, true); });
}

cudaError_t cudaFreeHost(void* memory) {
  return called("cudaFreeHost", kDestroys,
                [memory](Recorder& machine) { return machine.release(memory, true); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return called("cudaMemGetInfo", kNeedsDevice, [=](Recorder& machine) {
    *free = machine.free_memory();
    *total = machine.setup().memory;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return called("cudaMemcpy", kSubmits | kNeedsDevice, [=](Recorder& machine) {
    return machine.copy(to, from, bytes, kind == cudaMemcpyDeviceToHost);
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return called("cudaMemset", kSubmits | kNeedsDevice,
                [=](Recorder& machine) { return machine.set(memory, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  return called("cudaStreamCreateWithFlags", kMakes | kNeedsDevice,
                [stream](Recorder& machine) { return machine.make_stream(stream, nullptr); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  return called("cudaStreamCreateWithPriority", kMakes | kNeedsDevice,
                [stream](Recorder& machine) { return machine.make_stream(stream, nullptr); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return called("cudaStreamDestroy", kDestroys,
                [stream](Recorder& machine) { return machine.destroy(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return called("cudaStreamQuery", kAsks,
                [stream](Recorder& machine) { return machine.look(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return called("cudaStreamSynchronize", kFinishes,
                [stream](Recorder& machine) { return machine.finish(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return called("cudaStreamWaitEvent", kSubmits,
                [=](Recorder& machine) { return machine.wait(stream, event); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return called("cudaLaunchHostFunc", kSubmits, [=](Recorder& machine) {
    return machine.submit(stream, {}, [=] { function(data); });
  });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute /*attribute*/, int value) {
  return called("cudaFuncSetAttribute", kNeedsDevice, [=](Recorder& machine) {
    return machine.set_shared_bytes(kernel, static_cast<std::size_t>(value));
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return called("cudaEventCreateWithFlags", kMakes | kNeedsDevice,
                [=](Recorder& machine) { return machine.make_event(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return called("cudaEventDestroy", kDestroys,
                [event](Recorder& machine) { return machine.destroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return called("cudaEventRecord", kSubmits,
                [=](Recorder& machine) { return machine.record(event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return called("cudaEventQuery", kAsks,
                [event](Recorder& machine) { return machine.look(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return called("cudaEventSynchronize", kFinishes,
                [event](Recorder& machine) { return machine.finish(event); });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return called("cudaEventElapsedTime", kAsks,
                [=](Recorder& machine) { return machine.elapsed(ms, start, end); });
}

CUresult cuDeviceGetDevResource(CUdevice /*device*/, CUdevResource* resource,
                                CUdevResourceType type) {
  return driver_called("cuDeviceGetDevResource", kAsks, [=](Recorder& machine) {
    *resource = {};
    resource->type = type;
    resource->sm.smCount = machine.setup().multiprocessors;
    return cudaSuccess;
  });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count,
                                     const CUdevResource* input, CUdevResource* rest,
                                     unsigned /*flags*/, unsigned least) {
  return driver_called("cuDevSmResourceSplitByCount", kAsks, [=](Recorder&) {
    const unsigned each = (least + 7) / 8 * 8;
    *count = std::min(*count, input->sm.smCount / each);
    *rest = *input;
    rest->sm.smCount -= *count * each;
    for (unsigned i = 0; i < *count; ++i) {
      groups[i] = *input;
      groups[i].sm.smCount = each;
    }
    return cudaSuccess;
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned /*count*/) {
  return driver_called("cuDevResourceGenerateDesc", kAsks, [=](Recorder&) {
    *description = reinterpret_cast<CUdevResourceDesc>(resources);
    return cudaSuccess;
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc /*description*/, CUdevice device,
                          unsigned /*flags*/) {
  return driver_called("cuGreenCtxCreate", kMakes,
                       [=](Recorder& machine) { return machine.make_context(context, device); });
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  return driver_called("cuGreenCtxDestroy", kDestroys,
                       [context](Recorder& machine) { return machine.destroy(context); });
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned /*flags*/,
                                int /*priority*/) {
  return driver_called("cuGreenCtxStreamCreate", kMakes, [=](Recorder& machine) {
    ContextObject* const found = machine.find(context);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    return machine.make_stream(stream, found);
  });
}

}  // extern "C"
