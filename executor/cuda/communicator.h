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

#include "core/base/error.h"
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
  Communicator(Nccl& library, CommunicatorPlace place, Patience patience)
      : library_(library), place_(std::move(place)), patience_(std::move(patience)) {}
  ~Communicator() { abort(); }  // aborts what was not closed
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// What `issue` does for each member is one operation of NCCL; returns when all have ended it, or
  /// have given it to their streams. Throws DeviceError, and aborts the member, where one fails.
  /// REQUIRES: not empty. Of several members here, all that depend on one another are given.
  static void together(std::span<Communicator* const> members, const std::string& call,
                       const std::function<NcclResult(Communicator&)>& issue) {
    Nccl& library = members.front()->library_;
    NcclResult status = library.group_start();
    Communicator* culprit = nullptr;
    for (Communicator* member : members) {
      if (!goes_on(status)) break;
      status = issue(*member);
      if (!goes_on(status)) culprit = member;
    }
    // A group that was begun is ended, whatever has failed in it.
    const NcclResult ended = library.group_end();
    if (culprit != nullptr) culprit->fail(status, call);
    if (!goes_on(status)) members.front()->fail(status, "ncclGroupStart");
    for (Communicator* member : members) member->finish(ended, call);
  }

  // For `issue`, of all ranks here together: a rank of the communicator of that id.
  NcclResult issue_init(const NcclId& id) { return library_.init(handle_, id, place_); }
  /// All ranks of this one give their share of it: those with a `child` are the ranks of `part`.
  /// Until it has ended, or this one is aborted, `child` must live, and is not to be aborted.
  NcclResult issue_split(int part, Communicator* child) {
    if (child == nullptr) return library_.split(handle_, Nccl::kNoPart, none_, {});
    return library_.split(handle_, part, child->handle_, child->place_);
  }
  NcclResult issue_send(std::span<const std::byte> bytes, int to, GpuStream stream) {
    return library_.send(bytes, to, handle_, stream);
  }
  NcclResult issue_receive(std::span<std::byte> into, int from, GpuStream stream) {
    return library_.receive(into, from, handle_, stream);
  }
  NcclResult issue_sum(std::span<float> values, GpuStream stream) {
    return library_.sum(values, handle_, stream);
  }

  /// The same as an operation of this rank alone.
  void send(std::span<const std::byte> bytes, int to, GpuStream stream) {
    alone("ncclSend", [&](Communicator& me) { return me.issue_send(bytes, to, stream); });
  }
  void receive(std::span<std::byte> into, int from, GpuStream stream) {
    alone("ncclRecv", [&](Communicator& me) { return me.issue_receive(into, from, stream); });
  }
  void sum(std::span<float> values, GpuStream stream) {
    alone("ncclAllReduce", [&](Communicator& me) { return me.issue_sum(values, stream); });
  }

  /// Throws where it is not the rank, of so many, that it was to be: others split in another order.
  void check_place() {
    int ranks = 0, rank = 0;
    const NcclResult status = library_.size(handle_, ranks, rank);
    if (status != NcclResult::success) fail(status, "ncclCommCount");
    if (ranks == place_.ranks && rank == place_.rank) return;
    abort();
    throw DeviceError(
        fmt::format("{}, rank {} of {}, was made rank {} of {}: devices make communicators in "
                    "different orders",
                    place_.name, place_.rank, place_.ranks, rank, ranks));
  }
  /// Throws what failed since, such as a lost connection.
  void look() {
    if (handle_ == nullptr) return;
    NcclResult state = NcclResult::success;
    const NcclResult asked = library_.async_error(handle_, state);
    if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
    if (!goes_on(state)) fail(state, "what was given to it");
  }
  /// Ends an operation that would wait for ever. No further call but this one is of use.
  void abort() {
    if (NcclHandle handle = std::exchange(handle_, nullptr)) library_.abort(handle);
  }
  /// When all that was given has ended. begin_closing() of all ranks here comes first.
  void begin_closing() {
    if (handle_ == nullptr) return;
    if (const NcclResult status = library_.finalize(handle_); !goes_on(status))
      fail(status, "ncclCommFinalize");
  }
  void close() {
    if (handle_ == nullptr) return;
    finish(NcclResult::in_progress, "ncclCommFinalize");
    library_.destroy(std::exchange(handle_, nullptr));
  }

  int rank() const { return place_.rank; }

 private:
  static bool goes_on(NcclResult status) {
    return status == NcclResult::success || status == NcclResult::in_progress;
  }
  /// Until it has ended.
  void finish(NcclResult status, const std::string& call) {
    const auto since = std::chrono::steady_clock::now();
    while (status == NcclResult::in_progress) {
      const NcclResult asked = library_.async_error(handle_, status);
      if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
      if (status == NcclResult::in_progress)
        patience_(fmt::format("{}: {}", place_.name, call),
                  std::chrono::steady_clock::now() - since);
    }
    if (status != NcclResult::success) fail(status, call);
  }
  [[noreturn]] void fail(NcclResult status, const std::string& call) {
    const std::string more = handle_ == nullptr ? std::string() : library_.last_error(handle_);
    std::string what = fmt::format("{}, rank {} of {}: {}: {}", place_.name, place_.rank,
                                   place_.ranks, call, library_.describe(status));
    if (!more.empty()) what += fmt::format(" ({})", more);
    abort();
    // NCCL found the GPU in error, which may be of whatever ran before.
    if (status == NcclResult::gpu_failed) throw LateError(std::move(what));
    throw DeviceError(std::move(what));
  }
  void alone(const char* call, const std::function<NcclResult(Communicator&)>& issue) {
    if (handle_ == nullptr)
      throw DeviceError(fmt::format("{}: {} after it was aborted", place_.name, call));
    Communicator* const self = this;
    together({&self, 1}, call, issue);
  }

  Nccl& library_;
  const CommunicatorPlace place_;
  const Patience patience_;
  NcclHandle handle_ = nullptr;  // null: not made yet, aborted or closed
  NcclHandle none_ = nullptr;    // of a split that leaves this rank out
};

}  // namespace tandem::cuda
