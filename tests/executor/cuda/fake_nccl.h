#pragma once
// NCCL's functions without NCCL: they note that they were called, and answer what a test says.

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "executor/cuda/nccl.h"

namespace tandem::cuda::testing {

class FakeNccl final : public Nccl {
 public:
  using Answers = std::deque<NcclResult>;

  std::vector<std::string> calls;
  /// What the next calls of each of these answer; success when none is left.
  Answers to_group_end, to_init, to_split, to_send, to_sum, to_async_error;
  std::vector<CommunicatorPlace> places;  // of communicators
  int ids = 0, made = 0;                  // a communicator's handle is its number
  int wrong_size = 0;                     // the number of one that has a rank more

  std::size_t count(const std::string& call) const {
    std::size_t count = 0;
    for (const std::string& each : calls) count += each == call ? 1 : 0;
    return count;
  }

  std::string version() const override { return "2.28.0"; }
  std::string describe(NcclResult result) const override {
    return result == NcclResult::remote_failed ? "remote error" : "some error";
  }
  std::string last_error(NcclHandle) const override { return "the link is down"; }
  NcclResult make_id(NcclId& id) override {
    id[0] = static_cast<char>(++ids);
    return NcclResult::success;
  }
  NcclResult init(NcclHandle& handle, const NcclId& id, const CommunicatorPlace& place) override {
    add(handle, place);
    return note(fmt::format("init {} of {} by {}", place.rank, place.ranks, int{id[0]}),
                next(to_init));
  }
  NcclResult split(NcclHandle parent, int part, NcclHandle& handle,
                   const CommunicatorPlace& place) override {
    if (part == kNoPart) return note("no part of " + number(parent), next(to_split));
    add(handle, place);
    return note(fmt::format("part {} of {}", part, number(parent)), next(to_split));
  }
  NcclResult size(NcclHandle handle, int& ranks, int& rank) override {
    const std::size_t at = reinterpret_cast<std::size_t>(handle);
    ranks = places[at - 1].ranks + (static_cast<int>(at) == wrong_size ? 1 : 0);
    rank = places[at - 1].rank;
    return NcclResult::success;
  }
  NcclResult async_error(NcclHandle handle, NcclResult& state) override {
    state = next(to_async_error);
    return note("ask " + number(handle));
  }
  NcclResult finalize(NcclHandle handle) override { return note("finalize " + number(handle)); }
  NcclResult destroy(NcclHandle handle) override { return note("destroy " + number(handle)); }
  NcclResult abort(NcclHandle handle) override { return note("abort " + number(handle)); }
  NcclResult group_start() override { return note("{"); }
  NcclResult group_end() override { return note("}", next(to_group_end)); }
  NcclResult send(std::span<const std::byte> bytes, int to, NcclHandle, GpuStream) override {
    return note(fmt::format("send {} to {}", bytes.size(), to), next(to_send));
  }
  NcclResult receive(std::span<std::byte> into, int from, NcclHandle, GpuStream) override {
    return note(fmt::format("receive {} from {}", into.size(), from));
  }
  NcclResult sum(std::span<float> values, NcclHandle, GpuStream) override {
    return note(fmt::format("sum {}", values.size()), next(to_sum));
  }

 private:
  static NcclResult next(Answers& answers) {
    if (answers.empty()) return NcclResult::success;
    const NcclResult answer = answers.front();
    answers.pop_front();
    return answer;
  }
  NcclResult note(std::string call, NcclResult answer = NcclResult::success) {
    calls.push_back(std::move(call));
    return answer;
  }
  void add(NcclHandle& handle, const CommunicatorPlace& place) {
    handle = reinterpret_cast<NcclHandle>(static_cast<std::size_t>(++made));
    places.push_back(place);
  }
  static std::string number(NcclHandle handle) {
    return std::to_string(reinterpret_cast<std::size_t>(handle));
  }
};

}  // namespace tandem::cuda::testing
