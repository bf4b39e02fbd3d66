#pragma once
// Communicators: all that the devices of this process have part in. One of all devices, of all
// ranks, is made by an id that the first rank makes; every other one is split from it, in the order
// of the plans, which is one for all: so nobody waits for a rank that waits for him. One process
// that has all devices is one rank of that.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/table.h"
#include "executor/backend/notice.h"
#include "executor/cuda/communicator.h"
#include "executor/run/communicator_plans.h"
#include "executor/run/other_ranks.h"

namespace tandem::cuda {

/// What communicators ask of the GPUs of this process's devices.
class CommunicatorGpus {
 public:
  CommunicatorGpus() = default;
  virtual ~CommunicatorGpus() = default;
  CommunicatorGpus(const CommunicatorGpus&) = delete;
  CommunicatorGpus& operator=(const CommunicatorGpus&) = delete;

  /// The calling thread works on the device's from now on.
  virtual void enter(DeviceId device) = 0;
  // For first messages: a stream, and a number in the memory of that GPU. Of one that is entered.
  virtual GpuStream stream(DeviceId device) = 0;
  virtual std::span<float> number(DeviceId device) = 0;
  /// Whether all that the stream was given has ended. Throws what has failed; does not wait.
  virtual bool is_idle(DeviceId device) = 0;
};

/// Whom they tell what.
struct TransportNotices {
  Notice note;   // what went wrong when the run had ended
  Notice stuck;  // the error, before it ends the process with exit code 1: an abort hangs
};

struct CommunicatorsSetup {
  std::size_t devices = 0;       // of all ranks
  OtherRanks* others = nullptr;  // null: all devices are here
  TransportNotices notices = {};
  Duration longest_wait = std::chrono::seconds(60);  // more than connecting to a thousand takes
  /// What fails on the way to another rank may be the end of it, which is told of later.
  Duration doubt = std::chrono::milliseconds(3500);
};

class Communicators {
 public:
  /// Makes and connects them: all ranks do so at once. Throws InputError where another rank has
  /// other plans, DeviceError where one has failed, or something has not ended in time.
  /// REQUIRES: `library`, `plans` and `gpus` outlive this.
  Communicators(Nccl& library, const CommunicatorPlans& plans, CommunicatorGpus& gpus,
                CommunicatorsSetup setup);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Of a device here, by its own thread. `plan`: a place in plans.all().
  void send(std::size_t plan, std::span<const std::byte> bytes, GpuStream stream);
  void receive(std::size_t plan, std::span<std::byte> into, GpuStream stream);
  void sum(std::size_t plan, DeviceId device, std::span<float> values, GpuStream stream);
  /// Throws what has failed at a device's side since.
  void look(DeviceId device);

  /// Waiting ends when this says so. Before the devices start.
  void heed(std::stop_token stop) { stop_ = std::move(stop); }
  /// The devices' threads have stopped. The process ends, with exit code 1, if it takes too long.
  void abort();
  /// After the run, when all has ended. What goes wrong by then is a note.
  void close();

 private:
  bool is_here(DeviceId device) const;
  NcclId share_id();
  void make_root();
  void split(std::size_t plan);
  void connect(std::size_t plan);
  std::vector<DeviceId> members_here(std::size_t plan) const;
  Communicator& of(std::size_t plan, DeviceId device);
  std::unique_ptr<Communicator> make(CommunicatorPlace place);
  void for_each(const std::function<void(Communicator&)>& call);
  void wait(const std::string& what, Duration waited) const;
  void guarded(const std::function<void()>& call) const;

  Nccl& library_;
  const CommunicatorPlans& plans_;
  CommunicatorGpus& gpus_;
  const CommunicatorsSetup setup_;
  std::stop_token stop_;
  std::vector<DeviceId> here_;
  std::vector<std::vector<std::unique_ptr<Communicator>>> made_;  // of each plan; null: elsewhere
  // Aborted before those that are split from it: what is not yet split ends with it.
  std::vector<std::unique_ptr<Communicator>> roots_;  // of all devices; of each one here
};

/// Which GPU each device takes, one of its own, of those that its rank sees. `seen`: by this rank,
/// in their order; GPUs have names that no other one has, whoever sees them. All ranks call it.
/// Throws AbsentError where there are too few. Of devices elsewhere it says what that rank calls
/// its GPU.
Table<DeviceId, int> choose_gpus(std::size_t devices, const std::vector<std::string>& seen,
                                 OtherRanks* others);

}  // namespace tandem::cuda
