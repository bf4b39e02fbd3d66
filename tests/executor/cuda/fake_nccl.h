#pragma once
// NCCL's functions without NCCL: they note that they were called, and answer what a test says.

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "executor/cuda/nccl.h"

namespace tandem::cuda::testing {

/// NCCL has one state a process, and so has this: a test begins with reset().
struct FakeNccl {
  std::vector<std::string> calls;
  /// What the next calls of each of these answer; success when none is left.
  std::deque<ncclResult_t> to_group_end, to_init, to_send, to_all_reduce, to_async_error;
  std::vector<ncclConfig_t> configurations;
  std::vector<std::string> names;  // of communicators
  std::vector<char> ids;           // the first byte of each that was given
  int made = 0;                    // communicators; a handle is its number
  char ids_made = 0;

  static FakeNccl& state() {
    static FakeNccl state;
    return state;
  }
  static const Nccl& reset() {
    state() = {};
    static const Nccl table = functions();
    return table;
  }
  std::size_t count(const std::string& call) const {
    std::size_t count = 0;
    for (const std::string& each : calls) count += each == call ? 1 : 0;
    return count;
  }

 private:
  static ncclResult_t next(std::deque<ncclResult_t>& answers) {
    if (answers.empty()) return ncclSuccess;
    const ncclResult_t answer = answers.front();
    answers.pop_front();
    return answer;
  }
  static ncclResult_t note(std::string call, ncclResult_t answer = ncclSuccess) {
    state().calls.push_back(std::move(call));
    return answer;
  }
  static std::string number(ncclComm_t handle) {
    return std::to_string(reinterpret_cast<std::size_t>(handle));
  }

  static ncclResult_t init(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                           ncclConfig_t* config) {
    *handle = reinterpret_cast<ncclComm_t>(static_cast<std::size_t>(++state().made));
    state().configurations.push_back(*config);
    state().names.emplace_back(config->commName);
    state().ids.push_back(id.internal[0]);
    return note(fmt::format("init {} of {}", rank, ranks), next(state().to_init));
  }
  static ncclResult_t async_error(ncclComm_t handle, ncclResult_t* status) {
    *status = next(state().to_async_error);
    return note("ask " + number(handle));
  }

  static Nccl functions() {
    Nccl table;
    table.version = [](int* version) {
      *version = NCCL_VERSION_CODE;
      return ncclSuccess;
    };
    table.error_string = [](ncclResult_t status) {
      return status == ncclRemoteError ? "remote error" : "some error";
    };
    table.last_error = [](ncclComm_t) { return "the link is down"; };
    table.make_id = [](ncclUniqueId* id) {
      id->internal[0] = ++state().ids_made;
      return ncclSuccess;
    };
    table.init = &init;
    table.async_error = &async_error;
    table.finalize = [](ncclComm_t handle) { return note("finalize " + number(handle)); };
    table.destroy = [](ncclComm_t handle) { return note("destroy " + number(handle)); };
    table.abort = [](ncclComm_t handle) { return note("abort " + number(handle)); };
    table.group_start = [] { return note("{"); };
    table.group_end = [] { return note("}", next(state().to_group_end)); };
    table.send = [](const void*, std::size_t bytes, ncclDataType_t, int to, ncclComm_t,
                    cudaStream_t) {
      return note(fmt::format("send {} to {}", bytes, to), next(state().to_send));
    };
    table.receive = [](void*, std::size_t bytes, ncclDataType_t, int from, ncclComm_t,
                       cudaStream_t) {
      return note(fmt::format("receive {} from {}", bytes, from));
    };
    table.all_reduce = [](const void*, void*, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t operation, ncclComm_t, cudaStream_t) {
      const bool sums = type == ncclFloat32 && operation == ncclSum;
      return note(fmt::format("{} {}", sums ? "sum" : "other", count), next(state().to_all_reduce));
    };
    return table;
  }
};

}  // namespace tandem::cuda::testing
