#include "executor/cuda/peer_copy_timing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "executor/cuda/kernels/kernels.h"

namespace tandem::cuda {
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

}  // namespace

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

}  // namespace tandem::cuda
