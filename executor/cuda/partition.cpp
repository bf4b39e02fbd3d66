#include "executor/cuda/partition.h"

#include <utility>

#include <cuda.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/backend/notice.h"

namespace tandem::cuda {
namespace {

/// Of a stream on the current device: numerically lower is higher.
int priority_of(StreamUse use) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  return use == StreamUse::computation ? least : greatest;
}

class Whole : public Partition {
 public:
  explicit Whole(int gpu) : gpu_(gpu) {}
  OwnedStream make_stream(StreamUse use) override {
    cudaStream_t stream = nullptr;
    check(cudaSetDevice(gpu_), "cudaSetDevice");
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority_of(use)),
          "cudaStreamCreateWithPriority");
    return OwnedStream(stream);
  }
  int gpu() const override { return gpu_; }
  int multiprocessors() const override { return 0; }

 private:
  int gpu_;
};

/// The driver's functions, found when needed: nothing of it is linked. Null where it has none.
struct Driver {
  decltype(&cuDeviceGetDevResource) get_resource = find("cuDeviceGetDevResource", get_resource);
  decltype(&cuDevSmResourceSplitByCount) split = find("cuDevSmResourceSplitByCount", split);
  decltype(&cuDevResourceGenerateDesc) describe = find("cuDevResourceGenerateDesc", describe);
  decltype(&cuGreenCtxCreate) create = find("cuGreenCtxCreate", create);
  decltype(&cuGreenCtxDestroy) destroy = find("cuGreenCtxDestroy", destroy);
  decltype(&cuGreenCtxStreamCreate) make_stream = find("cuGreenCtxStreamCreate", make_stream);

  bool is_whole() const {
    return get_resource && split && describe && create && destroy && make_stream;
  }

 private:
  template <class Function>
  static Function find(const char* name, const Function& /*type*/) {
    constexpr unsigned kSince = 12050;  // of the stream's function; the others are of 12.4
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result);
    forget(status);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
    return reinterpret_cast<Function>(found);
  }
};

void check_driver(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw DeviceError(fmt::format("{}: driver error {}", call, static_cast<int>(result)));
}

class Green : public Partition {
 public:
  Green(int gpu, const Driver& driver, CUdevResource resource)
      : gpu_(gpu), multiprocessors_(static_cast<int>(resource.sm.smCount)), driver_(driver) {
    CUdevResourceDesc description = nullptr;
    check_driver(driver_.describe(&description, &resource, 1), "cuDevResourceGenerateDesc");
    check_driver(driver_.create(&context_, description, gpu, CU_GREEN_CTX_DEFAULT_STREAM),
                 "cuGreenCtxCreate");
  }
  ~Green() override { driver_.destroy(context_); }
  Green(const Green&) = delete;
  Green& operator=(const Green&) = delete;

  OwnedStream make_stream(StreamUse use) override {
    CUstream stream = nullptr;
    check(cudaSetDevice(gpu_), "cudaSetDevice");
    check_driver(driver_.make_stream(&stream, context_, CU_STREAM_NON_BLOCKING, priority_of(use)),
                 "cuGreenCtxStreamCreate");
    return OwnedStream(stream);
  }
  int gpu() const override { return gpu_; }
  int multiprocessors() const override { return multiprocessors_; }

 private:
  int gpu_, multiprocessors_;
  Driver driver_;
  CUgreenCtx context_ = nullptr;
};

/// Equal groups of multiprocessors, as many as wanted; empty, with the reason, where there are not.
std::pair<std::vector<CUdevResource>, std::string> split(const Driver& driver, int gpu,
                                                         std::size_t parts) {
  CUdevResource all{};
  if (driver.get_resource(gpu, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS)
    return {{}, "the driver does not divide this GPU"};
  const auto each = all.sm.smCount / static_cast<unsigned>(parts);
  // Groups are a multiple of 8 on GPUs of capability 9.0, which suits the older ones, too.
  const unsigned wanted = each / 8 * 8;
  if (wanted == 0)
    return {{}, fmt::format("{} multiprocessors are too few for {}", all.sm.smCount, parts)};
  std::vector<CUdevResource> groups(parts);
  auto count = static_cast<unsigned>(parts);
  CUdevResource rest{};
  const CUresult result = driver.split(groups.data(), &count, &all, &rest, 0, wanted);
  if (result != CUDA_SUCCESS || count < parts) {
    return {{},
            fmt::format("{} multiprocessors can't be divided into {} groups of {}", all.sm.smCount,
                        parts, wanted)};
  }
  return {std::move(groups), ""};
}

/// Streams of a probe, destroyed when what they were given has ended.
class ProbeStreams {
 public:
  ProbeStreams() = default;
  ProbeStreams(const ProbeStreams&) = delete;
  ProbeStreams& operator=(const ProbeStreams&) = delete;
  ~ProbeStreams() {
    for (const OwnedStream& stream : streams_) forget(cudaStreamSynchronize(stream.get()));
  }
  cudaStream_t keep(OwnedStream stream) { return streams_.emplace_back(std::move(stream)).get(); }

 private:
  std::vector<OwnedStream> streams_;
};

/// What a run does between the parts, once: streams of both priorities, and events of the GPU's
/// primary context that each part records, its neighbour waits for, and a clock times. Throws
/// DeviceError where one of it does not work.
void probe(const std::vector<std::shared_ptr<Partition>>& parts) {
  const OwnedEvent clock = make_event(cudaEventDefault);
  check(cudaEventRecord(clock.get(), nullptr), "cudaEventRecord");
  check(cudaEventSynchronize(clock.get()), "cudaEventSynchronize");
  std::vector<OwnedEvent> events;
  ProbeStreams streams;
  for (const auto& part : parts) {
    const cudaStream_t stream = streams.keep(part->make_stream(StreamUse::computation));
    const OwnedEvent& event = events.emplace_back(make_event(cudaEventDefault));
    check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const cudaStream_t stream = streams.keep(parts[i]->make_stream(StreamUse::copies));
    const OwnedEvent& before = events[(i + 1) % parts.size()];
    check(cudaStreamWaitEvent(stream, before.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
    const OwnedEvent behind = make_event(cudaEventDefault);
    check(cudaEventRecord(behind.get(), stream), "cudaEventRecord");
    check(cudaEventSynchronize(behind.get()), "cudaEventSynchronize");
    float ms = 0.0F;
    for (const OwnedEvent* const start : {&clock, &before})
      check(cudaEventElapsedTime(&ms, start->get(), behind.get()), "cudaEventElapsedTime");
  }
}

}  // namespace

Partitions divide(int gpu, std::size_t parts) {
  Partitions result;
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");  // makes the primary context
  const auto share = [&](std::string why) {
    for (std::size_t i = 0; i < parts; ++i) result.parts.push_back(std::make_shared<Whole>(gpu));
    result.why_shared = std::move(why);
    return result;
  };
  if (parts == 1) return share("");
  const Driver driver;
  if (!driver.is_whole()) return share("the driver has no green contexts (12.5 and newer have)");
  const auto [groups, why] = split(driver, gpu, parts);
  if (groups.empty()) return share(why);
  try {
    for (const CUdevResource& group : groups)
      result.parts.push_back(std::make_shared<Green>(gpu, driver, group));
    probe(result.parts);
    return result;
  } catch (const LateError&) {
    throw;  // undivided, the GPU would fail as well
  } catch (const DeviceError& error) {
    cudaGetLastError();  // or the next kernel would be blamed
    result.parts.clear();
    return share(fmt::format("its parts can't be used: {}", error.what()));
  }
}

}  // namespace tandem::cuda
