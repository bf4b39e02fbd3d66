#pragma once
// Communicator: one rank of a communicator of NCCL that never blocks the host: a call returns
// though it has not ended, and then its state is asked until it has, so that whoever waits can give
// up. What has failed is aborted, once, and refuses everything from then on.

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "core/base/units.h"
#include "executor/cuda/nccl.h"

namespace tandem::cuda {

/// Called between two looks at what has not ended, with what that is and for how long it has been
/// waited for: sleeps, or throws to give up.
using Patience = std::function<void(const std::string& what, Duration waited)>;

/// Used by one thread at a time. Of the GPU that is current whenever it is called.
class Communicator {
 public:
  struct Place {
    std::string name;  // for errors
    int ranks = 1, rank = 0;
    int most_blocks = 0;  // of its kernels, which take multiprocessors while they wait; 0: any
  };

  Communicator(const Nccl& library, Place place, Patience patience);
  ~Communicator();  // aborts what was not closed
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// What `issue` does for each member is one operation of NCCL; returns when all have ended it, or
  /// have given it to their streams. Throws DeviceError, and aborts the member, where one fails.
  /// REQUIRES: not empty. Of several members here, all that depend on one another are given.
  static void together(std::span<Communicator* const> members, const char* call,
                       const std::function<ncclResult_t(Communicator&)>& issue);

  // For `issue`, of all ranks here together: a rank of the communicator of that id.
  ncclResult_t issue_init(const ncclUniqueId& id);
  ncclResult_t issue_send(const void* from, std::size_t bytes, int to, cudaStream_t stream);
  ncclResult_t issue_receive(void* into, std::size_t bytes, int from, cudaStream_t stream);
  /// In place.
  ncclResult_t issue_sum(float* values, std::size_t count, cudaStream_t stream);

  /// The same as an operation of this rank alone.
  void send(const void* from, std::size_t bytes, int to, cudaStream_t stream);
  void receive(void* into, std::size_t bytes, int from, cudaStream_t stream);
  void sum(float* values, std::size_t count, cudaStream_t stream);

  /// Throws what failed since, such as a lost connection.
  void look();
  /// Ends an operation that would wait for ever. No further call but this one is of use.
  void abort();
  /// When all that was given has ended. begin_closing() of all ranks here comes first.
  void begin_closing();
  void close();

  int rank() const { return place_.rank; }

 private:
  /// Until it has ended.
  void finish(ncclResult_t status, const char* call);
  [[noreturn]] void fail(ncclResult_t status, const char* call);
  void alone(const char* call, const std::function<ncclResult_t(Communicator&)>& issue);

  const Nccl& library_;
  const Place place_;
  const Patience patience_;
  ncclComm_t handle_ = nullptr;  // null: not made yet, aborted or closed
};

}  // namespace tandem::cuda
