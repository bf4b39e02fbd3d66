// NCCL itself, as far as one GPU goes: a communicator of one rank. Several ranks need several GPUs.

#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cuda/communicator.h"
#include "executor/cuda/nccl.h"
#include "executor/cuda/runtime/raii.h"
#include "tests/executor/cuda/gpu_machine.h"

namespace tandem::cuda {
namespace {

using testing::GpuMachine;

constexpr std::size_t kCount = 1000;

std::optional<std::string> why_not_tried() {
  if (const auto why = GpuMachine::why_absent()) return why;
  try {
    nccl();
  } catch (const AbsentError& error) {
    return error.what();
  }
  return std::nullopt;
}

void wait_a_minute(const std::string& what, Duration waited) {
  if (waited > std::chrono::minutes(1)) throw DeviceError(what + " does not end");
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

/// The only rank of a communicator on the first GPU, and a stream.
class OfOne {
 public:
  OfOne() : communicator_(nccl(), {.name = "one"}, &wait_a_minute) {
    check(cudaSetDevice(0), "cudaSetDevice");
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(made);
    NcclId id{};
    EXPECT_EQ(nccl().make_id(id), NcclResult::success);
    issue("ncclCommInitRankConfig", [&](Communicator& me) { return me.issue_init(id); });
  }
  void issue(const char* call, const std::function<NcclResult(Communicator&)>& calls) {
    Communicator* const me = &communicator_;
    Communicator::together({&me, 1}, call, calls);
  }
  void wait() {
    const auto since = std::chrono::steady_clock::now();
    while (cudaStreamQuery(stream()) == cudaErrorNotReady)
      wait_a_minute("the stream", std::chrono::steady_clock::now() - since);
  }
  Communicator& communicator() { return communicator_; }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  OwnedStream stream_;
  Communicator communicator_;
};

std::vector<float> numbers() {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(GpuNccl, SendsToItselfInAGroup) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  OfOne one;
  const GpuMachine machine(1);
  const auto from = machine.put(numbers());
  const auto into = machine.poisoned<float>(kCount);
  one.issue("an exchange", [&](Communicator& me) {
    const NcclResult sent = me.issue_send(std::as_bytes(from.in()), 0, one.stream());
    const NcclResult received =
        me.issue_receive(std::as_writable_bytes(into.out()), 0, one.stream());
    return sent == NcclResult::success ? received : sent;
  });
  one.wait();
  EXPECT_EQ(machine.get(into), numbers());
  one.communicator().begin_closing();
  one.communicator().close();
}

TEST(GpuNccl, SumsOverOne) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  OfOne one;
  const GpuMachine machine(1);
  const auto values = machine.put(numbers());
  one.communicator().sum(values.out(), one.stream());
  one.wait();
  EXPECT_EQ(machine.get(values), numbers());
  one.communicator().look();
}

// Outside a group it would wait for a receive that nobody can give.
TEST(GpuNccl, RefusesToSendToItselfAlone) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  OfOne one;
  const GpuMachine machine(1);
  const auto from = machine.put(numbers());
  EXPECT_THROW(one.communicator().send(std::as_bytes(from.in()), 0, one.stream()), DeviceError);
}

TEST(GpuNccl, IsAborted) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  OfOne one;
  const GpuMachine machine(1);
  const auto values = machine.put(numbers());
  one.communicator().sum(values.out(), one.stream());
  one.communicator().abort();
  EXPECT_THROW(one.communicator().sum(values.out(), one.stream()), DeviceError);
}

// One part of one rank, and none.
TEST(GpuNccl, Splits) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  OfOne one;
  Communicator part(nccl(), {.name = "a part"}, &wait_a_minute);
  one.issue("ncclCommSplit", [&](Communicator& me) { return me.issue_split(7, &part); });
  part.check_place();
  one.issue("ncclCommSplit", [&](Communicator& me) { return me.issue_split(8, nullptr); });
  const GpuMachine machine(1);
  const auto values = machine.put(numbers());
  part.sum(values.out(), one.stream());
  one.wait();
  EXPECT_EQ(machine.get(values), numbers());
  for (Communicator* each : {&one.communicator(), &part}) each->begin_closing();
  for (Communicator* each : {&one.communicator(), &part}) each->close();
}

// What choose_gpus() spares the user.
TEST(GpuNccl, RefusesTwoRanksOnAGpuItself) {
  if (const auto why = why_not_tried()) GTEST_SKIP() << *why;
  check(cudaSetDevice(0), "cudaSetDevice");
  NcclId id{};
  ASSERT_EQ(nccl().make_id(id), NcclResult::success);
  Communicator first(nccl(), {.name = "two", .ranks = 2, .rank = 0}, &wait_a_minute);
  Communicator second(nccl(), {.name = "two", .ranks = 2, .rank = 1}, &wait_a_minute);
  const std::vector<Communicator*> both{&first, &second};
  EXPECT_THROW(Communicator::together(both, "ncclCommInitRankConfig",
                                      [&](Communicator& each) { return each.issue_init(id); }),
               DeviceError);
}

}  // namespace
}  // namespace tandem::cuda
