#pragma once
// Training over NCCL's stand-in: what a process needs of its own, where threads play processes and
// devices behave as GPUs do.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "executor/cuda/nccl_transport.h"
#include "executor/run/training_run.h"
#include "tests/executor/cuda/nccl_of_threads.h"
#include "tests/support/deferred_backend.h"

namespace tandem::cuda::testing {

using tandem::testing::DeferredBackend;
using tandem::testing::DeferredRunState;

/// Streams of first messages, which run what is ready when they are asked.
class FirstStreams final : public CommunicatorGpus {
 public:
  void enter(DeviceId) override {}
  GpuStream stream(DeviceId device) override { return of_[device].handle(); }
  std::span<float> number(DeviceId device) override { return std::span(&numbers_[device], 1); }
  bool is_idle(DeviceId device) override {
    for (auto& [each, queue] : of_) queue.run_ready();
    return of_[device].is_empty();
  }

 private:
  class Queue final : public FakeStream {
   public:
    void launch(std::function<bool()> ready, std::function<void()> run) override {
      tasks_.emplace_back(std::move(ready), std::move(run));
    }
    void run_ready() {
      for (; !tasks_.empty() && tasks_.front().first(); tasks_.pop_front()) tasks_.front().second();
    }
    bool is_empty() const { return tasks_.empty(); }

   private:
    std::deque<std::pair<std::function<bool()>, std::function<void()>>> tasks_;
  };
  std::map<DeviceId, Queue> of_;
  std::map<DeviceId, float> numbers_;
};

/// A process: its devices, its NCCL and its streams.
class NcclProcess {
 public:
  using B = DeferredBackend<float>;

  explicit NcclProcess(NcclWorld& world, std::uint64_t seed = 1) : nccl(world), world_(world) {
    run_state_.seed = seed;
  }

  NcclOfThread nccl;
  CommunicatorsSetup setup;

  TrainingReport<float> train(const Program& program, const TrainingSetup<float>& training) {
    const std::uint16_t width = width_of(program);
    setup.devices = std::size_t{program.placement().devices} * width;
    setup.others = training.others;
    NcclTransport<B> transport(
        nccl, CommunicatorPlans(program, width), gpus_, setup,
        [this](DeviceId device, B::Stream& stream) { return handle(device, stream); });
    const auto make = [&](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
      transport.heed(stop);
      auto made = std::make_unique<B>(run_state_, index(device), wakeup, std::move(stop));
      devices_[device] = made.get();
      return made;
    };
    TrainingRun<B> run(program, training, make, &transport);
    // Taken back before the devices that it wakes are gone.
    const auto woken = world_.on_change([this] { run_state_.wake_all(); });
    TrainingReport<float> report = run.run();
    if (!report.interrupted) transport.close();
    return report;
  }

 private:
  class DeviceStream final : public FakeStream {
   public:
    DeviceStream(B& device, B::Stream& stream) : device_(device), stream_(stream) {}
    void launch(std::function<bool()> ready, std::function<void()> run) override {
      device_.launch_when(stream_, std::move(ready), std::move(run));
    }

   private:
    B& device_;
    B::Stream& stream_;
  };

  /// By the device's thread.
  GpuStream handle(DeviceId device, B::Stream& stream) {
    const std::lock_guard lock(mutex_);
    auto& made = streams_[&stream];
    if (!made) made = std::make_unique<DeviceStream>(*devices_.at(device), stream);
    return made->handle();
  }

  NcclWorld& world_;
  DeferredRunState run_state_;
  FirstStreams gpus_;
  std::map<DeviceId, B*> devices_;  // filled before their threads start
  std::mutex mutex_;
  std::map<B::Stream*, std::unique_ptr<DeviceStream>> streams_;
};

}  // namespace tandem::cuda::testing
