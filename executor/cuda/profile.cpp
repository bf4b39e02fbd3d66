// Profiles measured on GPUs: the passes are the CPU's, timed by events.

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <type_traits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/cpu/products.h"
#include "executor/cuda/backend.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/kernels/workspace.h"
#include "executor/cuda/memory_plan.h"
#include "executor/profile/profile_visits.h"

namespace tandem {

namespace cuda {
namespace {

constexpr int kRounds = 32;  // what a stream takes up before the host would have to wait
constexpr int kChains = 9;

class End {
 public:
  End(const std::shared_ptr<Partition>& place, Bytes bytes)
      : gpu_(place->gpu()), stream_(place->make_stream(StreamUse::copies)) {
    enter();
    context_ = std::make_unique<KernelContext>(
        stream_.get(),
        KernelSettings{.products = {.engine = "portable", .precision = {}}, .workspace = 0});
    memory_ = allocate_zeros(bytes);
    elements_ = static_cast<std::size_t>(bytes) / sizeof(float);
    for (OwnedEvent& event : sent_) event = make_event(cudaEventDisableTiming);
  }

  void enter() const { check(cudaSetDevice(gpu_), "cudaSetDevice"); }
  void send(const End& to, std::size_t round) {
    enter();
    Kernels<float>(*context_).copy(elements(), to.elements());
    check(cudaEventRecord(sent_[round].get(), stream_.get()), "cudaEventRecord");
  }
  void follow(const End& from, std::size_t round) const {
    check(cudaStreamWaitEvent(stream_.get(), from.sent_[round].get(), cudaEventWaitDefault),
          "cudaStreamWaitEvent");
  }
  void record(const OwnedEvent& event) const {
    enter();
    check(cudaEventRecord(event.get(), stream_.get()), "cudaEventRecord");
  }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  std::span<float> elements() const { return {reinterpret_cast<float*>(memory_.get()), elements_}; }

  int gpu_;
  OwnedStream stream_;
  std::unique_ptr<KernelContext> context_;
  DeviceMemory memory_;
  std::size_t elements_ = 0;
  std::array<OwnedEvent, kRounds> sent_;
};

/// Holds a stream back until it goes.
class Held {
 public:
  explicit Held(cudaStream_t stream) {
    const auto wait = [](void* held) {
      while (!static_cast<Held*>(held)->released_) std::this_thread::yield();
    };
    check(cudaLaunchHostFunc(stream, wait, this), "cudaLaunchHostFunc");
    stream_ = stream;
  }
  ~Held() { release(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  /// Returns when the stream has ended.
  void release() {
    released_ = true;
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  }

 private:
  std::atomic<bool> released_ = false;
  cudaStream_t stream_ = nullptr;
};

void chain(End& here, End& there, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const auto round = static_cast<std::size_t>(i);
    here.send(there, round);
    there.follow(here, round);
    there.send(here, round);
    here.follow(there, round);
  }
}

/// What a hand-over from one device of a run to another takes: one way, from the start of the copy
/// to the other stream going on, half of a round trip, by events of the first device. The host is
/// ahead by all of it, as in training.
Duration measure_hand_over(const std::shared_ptr<Partition>& from,
                           const std::shared_ptr<Partition>& to, Bytes bytes) {
  End here(from, bytes), there(to, bytes);
  here.enter();
  const OwnedEvent start = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  // Kernels are loaded at their first launch, which would wait for what is held.
  chain(here, there, 1);
  check(cudaStreamSynchronize(here.stream()), "cudaStreamSynchronize");
  std::vector<float> times;
  for (int i = 0; i < kChains; ++i) {
    Held held(here.stream());
    here.record(start);
    chain(here, there, kRounds);
    here.record(end);
    held.release();
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, start.get(), end.get()), "cudaEventElapsedTime");
    times.push_back(ms);
  }
  std::ranges::nth_element(times, times.begin() + kChains / 2);
  const std::chrono::duration<double, std::milli> whole(times[kChains / 2]);
  return std::chrono::duration_cast<Duration>(whole / (2.0 * kRounds));
}

}  // namespace
}  // namespace cuda

namespace {

/// Throws InfeasibleError where what devices hold is more than is free on their GPU.
void check_free(const std::vector<std::shared_ptr<cuda::Partition>>& places, Bytes each) {
  for (int gpu = 0; gpu <= places.back()->gpu(); ++gpu) {
    const auto devices =
        std::ranges::count_if(places, [gpu](const auto& place) { return place->gpu() == gpu; });
    const Bytes needed = devices * each + cuda::kBesidePlan, free = cuda::free_memory(gpu);
    if (needed <= free) continue;
    throw InfeasibleError(fmt::format("profiling this model needs {} on GPU {}, which has {} free",
                                      print_bytes(needed), gpu, print_bytes(free)));
  }
}

}  // namespace

MeasuredProfile measure_cuda_profile(ProfileRequest request) {
  if (const std::string reason = why_no_cuda(); !reason.empty())
    throw AbsentError(fmt::format("backend cuda: {}; use --backend cpu", reason));
  check_trainable(request.model);
  const int gpus = cuda::count_gpus();
  if (request.busy_devices == 0) request.busy_devices = gpus;
  const auto devices = static_cast<std::size_t>(request.busy_devices);
  const auto used = static_cast<int>(std::min(devices, static_cast<std::size_t>(gpus)));
  const auto places = cuda::place(devices, static_cast<std::size_t>(gpus), request.on_notice);
  cuda::connect(used);
  const auto book = std::make_shared<cuda::AlgorithmBook>(std::vector<ProductAlgorithm>(), true);
  const cpu::Precision precision = cpu::product_precision();
  const cuda::KernelSettings kernels{
      .products = {.precision = precision},
      .workspace = cuda::workspace_needed(request.model, std::ranges::max(request.microbatch_sizes),
                                          precision == cpu::Precision::bf16),
      .algorithms = book,
      .fused_attention =
          cuda::fused_attention_of(request.model, request.microbatch_sizes, request.storage)};
  check_free(places, request.device_bytes + cuda::KernelContext::bytes_of(kernels));
  const auto measure = [&]<class B>(std::type_identity<B>) {
    return measure_layers<B>(request, [&](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
      cuda::BackendSetup setup{.partition = places[index(device)],
                               .kernels = {.computation = kernels}};
      return std::make_unique<B>(std::move(setup), wakeup, std::move(stop));
    });
  };
  const bool rounds = request.storage == Storage::bf16;
  Profile profile;
  profile.machine = cuda::describe_gpus(used);
  profile.kernels = fmt::format("cublaslt {}{}", name(precision), rounds ? ", stored in bf16" : "");
  profile.model = request.model;
  profile.optimizer = request.optimizer;
  profile.busy_devices = request.busy_devices;
  put_layers(rounds ? measure(std::type_identity<cuda::Bf16Backend>())
                    : measure(std::type_identity<cuda::Backend>()),
             request, profile);
  for (const Bytes bytes : hand_over_sizes(request)) {
    check_stop(request.stop);
    profile.transfers.push_back(
        {bytes, cuda::measure_hand_over(places.front(), places[devices > 1 ? 1 : 0], bytes)});
  }
  profile.instruction_overhead = measure_gap(*make_cuda_trainer());
  return {std::move(profile), book->all()};
}

}  // namespace tandem
