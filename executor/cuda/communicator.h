#pragma once
// Communicator: one rank of a communicator of NCCL that never blocks the host: a call returns
// though it has not ended, and then its state is asked until it has, so that whoever waits can give
// up. What has failed is aborted, once, and refuses everything from then on.

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/units.h"
#include "executor/backend/notice.h"
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

  Communicator(const Nccl& library, Place place, Patience patience)
      : library_(library), place_(std::move(place)), patience_(std::move(patience)) {}
  ~Communicator() { abort(); }  // aborts what was not closed
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// What `issue` does for each member is one operation of NCCL; returns when all have ended it, or
  /// have given it to their streams. Throws DeviceError, and aborts the member, where one fails.
  /// REQUIRES: not empty. Of several members here, all that depend on one another are given.
  static void together(std::span<Communicator* const> members, const char* call,
                       const std::function<ncclResult_t(Communicator&)>& issue) {
    const Nccl& library = members.front()->library_;
    ncclResult_t status = library.group_start();
    Communicator* culprit = nullptr;
    for (Communicator* member : members) {
      if (!goes_on(status)) break;
      status = issue(*member);
      if (!goes_on(status)) culprit = member;
    }
    // A group that was begun is ended, whatever has failed in it.
    const ncclResult_t ended = library.group_end();
    if (culprit != nullptr) culprit->fail(status, call);
    if (!goes_on(status)) members.front()->fail(status, "ncclGroupStart");
    for (Communicator* member : members) member->finish(ended, call);
  }

  // For `issue`, of all ranks here together: a rank of the communicator of that id.
  ncclResult_t issue_init(const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (place_.most_blocks > 0) config.maxCTAs = place_.most_blocks;
    config.commName = place_.name.c_str();
    return library_.init(&handle_, place_.ranks, id, place_.rank, &config);
  }
  // Bytes, so that any type may be sent.
  ncclResult_t issue_send(const void* from, std::size_t bytes, int to, cudaStream_t stream) {
    return library_.send(from, bytes, ncclUint8, to, handle_, stream);
  }
  ncclResult_t issue_receive(void* into, std::size_t bytes, int from, cudaStream_t stream) {
    return library_.receive(into, bytes, ncclUint8, from, handle_, stream);
  }
  /// In place.
  ncclResult_t issue_sum(float* values, std::size_t count, cudaStream_t stream) {
    return library_.all_reduce(values, values, count, ncclFloat32, ncclSum, handle_, stream);
  }

  /// The same as an operation of this rank alone.
  void send(const void* from, std::size_t bytes, int to, cudaStream_t stream) {
    alone("ncclSend", [&](Communicator& me) { return me.issue_send(from, bytes, to, stream); });
  }
  void receive(void* into, std::size_t bytes, int from, cudaStream_t stream) {
    alone("ncclRecv",
          [&](Communicator& me) { return me.issue_receive(into, bytes, from, stream); });
  }
  void sum(float* values, std::size_t count, cudaStream_t stream) {
    alone("ncclAllReduce", [&](Communicator& me) { return me.issue_sum(values, count, stream); });
  }

  /// Throws what failed since, such as a lost connection.
  void look() {
    if (handle_ == nullptr) return;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = library_.async_error(handle_, &state);
    if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
    if (!goes_on(state)) fail(state, "what was given to it");
  }
  /// Ends an operation that would wait for ever. No further call but this one is of use.
  void abort() {
    if (ncclComm_t handle = std::exchange(handle_, nullptr)) library_.abort(handle);
  }
  /// When all that was given has ended. begin_closing() of all ranks here comes first.
  void begin_closing() {
    if (handle_ == nullptr) return;
    if (const ncclResult_t status = library_.finalize(handle_); !goes_on(status))
      fail(status, "ncclCommFinalize");
  }
  void close() {
    if (handle_ == nullptr) return;
    finish(ncclInProgress, "ncclCommFinalize");
    library_.destroy(std::exchange(handle_, nullptr));
  }

  int rank() const { return place_.rank; }

 private:
  static bool goes_on(ncclResult_t status) {
    return status == ncclSuccess || status == ncclInProgress;
  }
  /// Until it has ended.
  void finish(ncclResult_t status, const char* call) {
    const auto since = std::chrono::steady_clock::now();
    while (status == ncclInProgress) {
      const ncclResult_t asked = library_.async_error(handle_, &status);
      if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
      if (status == ncclInProgress)
        patience_(fmt::format("{}: {}", place_.name, call),
                  std::chrono::steady_clock::now() - since);
    }
    if (status != ncclSuccess) fail(status, call);
  }
  [[noreturn]] void fail(ncclResult_t status, const char* call) {
    const char* const more = handle_ == nullptr ? nullptr : library_.last_error(handle_);
    std::string what = fmt::format("{}, rank {} of {}: {}: {}", place_.name, place_.rank,
                                   place_.ranks, call, library_.error_string(status));
    if (more != nullptr && *more != '\0') what += fmt::format(" ({})", more);
    abort();
    // NCCL found the GPU in error, which may be of whatever ran before.
    if (status == ncclUnhandledCudaError) throw LateError(std::move(what));
    throw DeviceError(std::move(what));
  }
  void alone(const char* call, const std::function<ncclResult_t(Communicator&)>& issue) {
    if (handle_ == nullptr)
      throw DeviceError(fmt::format("{}: {} after it was aborted", place_.name, call));
    Communicator* const self = this;
    together({&self, 1}, call, issue);
  }

  const Nccl& library_;
  const Place place_;
  const Patience patience_;
  ncclComm_t handle_ = nullptr;  // null: not made yet, aborted or closed
};

}  // namespace tandem::cuda
