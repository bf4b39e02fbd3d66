#include "executor/cuda/gpus.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "executor/cuda/runtime/raii.h"

namespace tandem::cuda {

int count_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

std::vector<std::shared_ptr<Partition>> place(std::size_t devices, std::size_t gpus,
                                              const Notice& notice) {
  std::vector<std::shared_ptr<Partition>> places;
  const std::size_t used = std::min(devices, gpus);
  for (std::size_t gpu = 0; gpu < used; ++gpu) {
    const std::size_t parts = devices * (gpu + 1) / used - devices * gpu / used;
    Partitions divided = divide(static_cast<int>(gpu), parts);
    if (!divided.why_shared.empty()) {
      tell(notice,
           fmt::format("{} devices share GPU {} whole: {}", parts, gpu, divided.why_shared));
    }
    std::ranges::move(divided.parts, std::back_inserter(places));
  }
  return places;
}

void connect(int gpus) {
  for (int here = 0; here < gpus; ++here) {
    check(cudaSetDevice(here), "cudaSetDevice");
    for (int there = 0; there < gpus; ++there) {
      if (here == there) continue;
      int reaches = 0;
      check(cudaDeviceCanAccessPeer(&reaches, here, there), "cudaDeviceCanAccessPeer");
      if (reaches == 0)
        throw AbsentError(fmt::format("GPU {} cannot reach the memory of GPU {}", here, there));
      const cudaError_t status = cudaDeviceEnablePeerAccess(there, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) {
        forget(status);
      } else {
        check(status, "cudaDeviceEnablePeerAccess");
      }
    }
  }
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (int gpu = 0; gpu < count_gpus(); ++gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    names.emplace_back(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  }
  return names;
}

namespace {

class FirstMessages final : public CommunicatorGpus {
 public:
  FirstMessages(const Table<DeviceId, int>& gpus, const std::vector<DeviceId>& here) : gpus_(gpus) {
    for (const DeviceId device : here) {
      enter(device);
      Of& made = of_[device];
      made.memory = allocate_zeros(sizeof(float));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      made.stream.reset(stream);
    }
  }
  void enter(DeviceId device) override { check(cudaSetDevice(gpus_[device]), "cudaSetDevice"); }
  GpuStream stream(DeviceId device) override { return of_.at(device).stream.get(); }
  std::span<float> number(DeviceId device) override {
    return {reinterpret_cast<float*>(of_.at(device).memory.get()), 1};
  }
  bool is_idle(DeviceId device) override {
    const cudaError_t status = cudaStreamQuery(of_.at(device).stream.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // or the next kernel would be blamed
      return false;
    }
    check(status, "cudaStreamQuery");
    return true;
  }

 private:
  struct Of {
    DeviceMemory memory;
    OwnedStream stream;
  };
  const Table<DeviceId, int> gpus_;
  std::map<DeviceId, Of> of_;
};

}  // namespace

std::unique_ptr<CommunicatorGpus> communicator_gpus(const Table<DeviceId, int>& gpus,
                                                    const std::vector<DeviceId>& here) {
  return std::make_unique<FirstMessages>(gpus, here);
}

std::string describe_gpus(int gpus) {
  std::map<std::string, int> counts;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    ++counts[properties.name];
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return fmt::format("{}, driver of CUDA {}.{}", fmt::join(parts, ", "), driver / 1000,
                     driver % 1000 / 10);
}

}  // namespace tandem::cuda
