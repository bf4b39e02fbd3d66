#include "executor/cuda/nccl_transport.h"

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "executor/cuda/cuda.h"

namespace tandem::cuda {
namespace {

/// Blocks of the kernel of a transfer: several lanes' may wait at once, and computation needs room.
constexpr int kBlocksOfTransfer = 4;
/// Longer than connecting to a thousand ranks takes.
constexpr Duration kLongestWait = std::chrono::seconds(60);
constexpr Duration kGrace = std::chrono::seconds(10);

/// Ends the process unless it is gone in time: an abort has been seen to hang.
class Alarm {
 public:
  explicit Alarm(const Notice& stuck)
      : thread_([this, &stuck](const std::stop_token& stop) { ring(stop, stuck); }) {}

 private:
  void ring(const std::stop_token& stop, const Notice& stuck) {
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, stop, kGrace, [] { return false; });
    if (stop.stop_requested()) return;
    tell(stuck, "communicators of NCCL do not end, though they were aborted");
    std::_Exit(1);
  }

  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;
};

/// What NCCL reads when it starts; what the user has set stays.
void set_environment() {
  // Kernels of several communicators on a GPU start in the order in which the host gave them.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  // One way to sum, whatever its size.
  setenv("NCCL_ALGO", "Ring", 0);
  setenv("NCCL_NVLS_ENABLE", "0", 0);
}

class NcclTransport : public GpuTransport {
 public:
  NcclTransport(const Nccl& library, CommunicatorPlans plans, const Table<DeviceId, int>& gpus,
                TransportNotices notices)
      : GpuTransport(std::move(plans)), gpus_(gpus), notices_(std::move(notices)) {
    communicators_ = make_communicators(
        library, this->plans(), [this](DeviceId device) { enter(device); },
        [this](const std::string& what, Duration waited) { wait(what, waited); });
    for (std::size_t i = 0; i < communicators_.size(); ++i) connect(i);
  }

  void send(std::size_t communicator, std::span<const float> values, Stream& stream) override {
    communicators_[communicator].front()->send(values.data(), values.size_bytes(), 1,
                                               Backend::handle(stream));
  }
  void receive(std::size_t communicator, std::span<float> values, Stream& stream) override {
    communicators_[communicator].back()->receive(values.data(), values.size_bytes(), 0,
                                                 Backend::handle(stream));
  }
  void sum(std::size_t communicator, DeviceId device, std::span<float> values,
           Stream& stream) override {
    const std::size_t rank = plans().all()[communicator].rank_of(device);
    communicators_[communicator][rank]->sum(values.data(), values.size(), Backend::handle(stream));
  }

  void heed(std::stop_token stop) override { stop_ = std::move(stop); }

  void look(DeviceId device) override {
    for (const std::size_t i : plans().of_device(device))
      communicators_[i][plans().all()[i].rank_of(device)]->look();
  }

  void abort() override {
    const Alarm alarm(notices_.stuck);
    for_each([](Communicator& each) { each.abort(); });
  }

  void close() override {
    try {
      for_each([](Communicator& each) { each.begin_closing(); });
      for_each([](Communicator& each) { each.close(); });
    } catch (const DeviceError& error) {
      tell(notices_.note, fmt::format("what was trained stands, but {}", error.what()));
      abort();
    }
  }

 private:
  void enter(DeviceId device) const { check(cudaSetDevice(gpus_[device]), "cudaSetDevice"); }

  template <class Call>
  void for_each(const Call& call) {
    for (std::size_t i = 0; i < communicators_.size(); ++i) {
      for (std::size_t rank = 0; rank < communicators_[i].size(); ++rank) {
        enter(plans().all()[i].devices[rank]);
        call(*communicators_[i][rank]);
      }
    }
  }

  void wait(const std::string& what, Duration waited) const {
    if (stop_.stop_requested()) throw Stopped{};
    if (waited > kLongestWait)
      throw DeviceError(fmt::format("{} has not ended in {:.0f} s", what, to_seconds(waited)));
    std::this_thread::sleep_for(kLook);
  }

  /// NCCL connects ranks when they first need it, which must be in one order, too: so each has a
  /// message, or a sum, before the first step.
  void connect(std::size_t i) {
    const CommunicatorPlan& plan = plans().all()[i];
    std::vector<DeviceMemory> memory;
    std::vector<OwnedStream> streams;
    std::vector<Communicator*> members;
    for (std::size_t rank = 0; rank < plan.devices.size(); ++rank) {
      enter(plan.devices[rank]);
      memory.push_back(allocate_zeros(sizeof(float)));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      streams.emplace_back(stream);
      members.push_back(communicators_[i][rank].get());
    }
    Communicator::together(members, "connecting", [&](Communicator& member) {
      const auto rank = static_cast<std::size_t>(member.rank());
      enter(plan.devices[rank]);
      void* const values = memory[rank].get();
      const cudaStream_t stream = streams[rank].get();
      if (plan.sums) return member.issue_sum(static_cast<float*>(values), 1, stream);
      return rank == 0 ? member.issue_send(values, sizeof(float), 1, stream)
                       : member.issue_receive(values, sizeof(float), 0, stream);
    });
    // Never waited for by CUDA, which could not give up.
    const auto since = std::chrono::steady_clock::now();
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      enter(plan.devices[rank]);
      while (true) {
        const cudaError_t status = cudaStreamQuery(streams[rank].get());
        if (status == cudaSuccess) break;
        if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
        members[rank]->look();
        wait(plan.name + ": connecting", std::chrono::steady_clock::now() - since);
      }
    }
  }

  const Table<DeviceId, int> gpus_;
  const TransportNotices notices_;
  std::stop_token stop_;
  Communicators communicators_;
};

}  // namespace

void check_one_gpu_each(const CommunicatorPlans& plans, const Table<DeviceId, int>& gpus) {
  for (const CommunicatorPlan& plan : plans.all()) {
    std::map<int, DeviceId> taken;
    for (const DeviceId device : plan.devices) {
      const auto [other, alone] = taken.emplace(gpus[device], device);
      if (alone) continue;
      throw AbsentError(fmt::format(
          "transport nccl: devices {} and {} are both on GPU {}, and NCCL takes one device of a "
          "communicator a GPU; use --transport peer, or as many GPUs as devices",
          index(other->second), index(device), gpus[device]));
    }
  }
}

Communicators make_communicators(const Nccl& library, const CommunicatorPlans& plans,
                                 const std::function<void(DeviceId)>& enter,
                                 const Patience& patience) {
  Communicators made;
  for (const CommunicatorPlan& plan : plans.all()) {
    auto& ranks = made.emplace_back();
    std::vector<Communicator*> members;
    for (std::size_t rank = 0; rank < plan.devices.size(); ++rank) {
      const Communicator::Place place{.name = plan.name,
                                      .ranks = static_cast<int>(plan.devices.size()),
                                      .rank = static_cast<int>(rank),
                                      .most_blocks = plan.sums ? 0 : kBlocksOfTransfer};
      ranks.push_back(std::make_unique<Communicator>(library, place, patience));
      members.push_back(ranks.back().get());
    }
    // Within one process. Among several, rank 0 makes it and tells the others.
    ncclUniqueId id{};
    if (const ncclResult_t status = library.make_id(&id); status != ncclSuccess)
      throw DeviceError(fmt::format("ncclGetUniqueId: {}", library.error_string(status)));
    Communicator::together(members, "ncclCommInitRankConfig", [&](Communicator& member) {
      enter(plan.devices[static_cast<std::size_t>(member.rank())]);
      return member.issue_init(id);
    });
  }
  return made;
}

std::unique_ptr<GpuTransport> make_nccl_transport(CommunicatorPlans plans,
                                                  const Table<DeviceId, int>& gpus,
                                                  TransportNotices notices) {
  check_one_gpu_each(plans, gpus);
  set_environment();
  return std::make_unique<NcclTransport>(nccl(), std::move(plans), gpus, std::move(notices));
}

}  // namespace tandem::cuda

namespace tandem {

FoundLibrary find_nccl() {
  try {
    return {.version = cuda::version_of(cuda::nccl())};
  } catch (const AbsentError& error) {
    return {.why_absent = error.what()};
  }
}

}  // namespace tandem
