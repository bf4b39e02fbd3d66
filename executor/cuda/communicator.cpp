#include "executor/cuda/communicator.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "executor/backend/late_error.h"

namespace tandem::cuda {
namespace {

bool goes_on(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

}  // namespace

Communicator::Communicator(const Nccl& library, Place place, Patience patience)
    : library_(library), place_(std::move(place)), patience_(std::move(patience)) {}

Communicator::~Communicator() { abort(); }

void Communicator::together(std::span<Communicator* const> members, const char* call,
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

void Communicator::alone(const char* call,
                         const std::function<ncclResult_t(Communicator&)>& issue) {
  if (handle_ == nullptr)
    throw DeviceError(fmt::format("{}: {} after it was aborted", place_.name, call));
  Communicator* const self = this;
  together({&self, 1}, call, issue);
}

ncclResult_t Communicator::issue_init(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (place_.most_blocks > 0) config.maxCTAs = place_.most_blocks;
  config.commName = place_.name.c_str();
  return library_.init(&handle_, place_.ranks, id, place_.rank, &config);
}

// Bytes, so that any type may be sent.
ncclResult_t Communicator::issue_send(const void* from, std::size_t bytes, int to,
                                      cudaStream_t stream) {
  return library_.send(from, bytes, ncclUint8, to, handle_, stream);
}

ncclResult_t Communicator::issue_receive(void* into, std::size_t bytes, int from,
                                         cudaStream_t stream) {
  return library_.receive(into, bytes, ncclUint8, from, handle_, stream);
}

ncclResult_t Communicator::issue_sum(float* values, std::size_t count, cudaStream_t stream) {
  return library_.all_reduce(values, values, count, ncclFloat32, ncclSum, handle_, stream);
}

void Communicator::send(const void* from, std::size_t bytes, int to, cudaStream_t stream) {
  alone("ncclSend", [&](Communicator& me) { return me.issue_send(from, bytes, to, stream); });
}

void Communicator::receive(void* into, std::size_t bytes, int from, cudaStream_t stream) {
  alone("ncclRecv", [&](Communicator& me) { return me.issue_receive(into, bytes, from, stream); });
}

void Communicator::sum(float* values, std::size_t count, cudaStream_t stream) {
  alone("ncclAllReduce", [&](Communicator& me) { return me.issue_sum(values, count, stream); });
}

void Communicator::look() {
  if (handle_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = library_.async_error(handle_, &state);
  if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
  if (!goes_on(state)) fail(state, "what was given to it");
}

void Communicator::finish(ncclResult_t status, const char* call) {
  const auto since = std::chrono::steady_clock::now();
  while (status == ncclInProgress) {
    const ncclResult_t asked = library_.async_error(handle_, &status);
    if (!goes_on(asked)) fail(asked, "ncclCommGetAsyncError");
    if (status == ncclInProgress)
      patience_(fmt::format("{}: {}", place_.name, call), std::chrono::steady_clock::now() - since);
  }
  if (status != ncclSuccess) fail(status, call);
}

void Communicator::fail(ncclResult_t status, const char* call) {
  const char* const more = handle_ == nullptr ? nullptr : library_.last_error(handle_);
  std::string what = fmt::format("{}, rank {} of {}: {}: {}", place_.name, place_.rank,
                                 place_.ranks, call, library_.error_string(status));
  if (more != nullptr && *more != '\0') what += fmt::format(" ({})", more);
  abort();
  // NCCL found the GPU in error, which may be of whatever ran before.
  if (status == ncclUnhandledCudaError) throw LateError(std::move(what));
  throw DeviceError(std::move(what));
}

void Communicator::abort() {
  if (ncclComm_t handle = std::exchange(handle_, nullptr)) library_.abort(handle);
}

void Communicator::begin_closing() {
  if (handle_ == nullptr) return;
  if (const ncclResult_t status = library_.finalize(handle_); !goes_on(status))
    fail(status, "ncclCommFinalize");
}

void Communicator::close() {
  if (handle_ == nullptr) return;
  finish(ncclInProgress, "ncclCommFinalize");
  library_.destroy(std::exchange(handle_, nullptr));
}

}  // namespace tandem::cuda
