// That the rules of recorder.h are seen broken: by single calls, and in whole runs that lose calls.

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/kernels/kernels.h"
#include "tests/executor/cuda/recorded/recorded_run.h"

namespace tandem::cuda::recorded {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TrainingCase;

constexpr std::size_t kBytes = 256;

OwnedStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return OwnedStream(stream);
}

void* allocate() {
  void* memory = nullptr;
  check(cudaMalloc(&memory, kBytes), "cudaMalloc");
  return memory;
}

/// A kernel that writes there.
void fill(cudaStream_t stream, void* memory) {
  KernelContext context(stream,
                        {.products = {.engine = "portable", .precision = {}}, .workspace = 0});
  Kernels<float>(context).fill({static_cast<float*>(memory), kBytes / sizeof(float)}, 1.0);
}

/// What `calls` break on two GPUs, the first being current.
std::vector<std::string> broken_by(const std::function<void()>& calls) {
  recorder().begin({.gpus = 2});
  check(cudaSetDevice(0), "cudaSetDevice");
  calls();
  return recorder().end().broken;
}

TEST(RecordedRules, AreKept) {
  EXPECT_THAT(broken_by([] {
                const OwnedStream stream = make_stream();
                const OwnedEvent event = make_event(cudaEventDisableTiming);
                void* const memory = allocate();
                fill(stream.get(), memory);
                check(cudaEventRecord(event.get(), stream.get()), "cudaEventRecord");
                check(cudaStreamWaitEvent(stream.get(), event.get(), 0), "cudaStreamWaitEvent");
                check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
                EXPECT_EQ(static_cast<float*>(memory)[3], 1.0F);
                cudaFree(memory);
              }),
              IsEmpty());
}

TEST(RecordedRules, KernelsRunWhenTheyAreWaitedFor) {
  EXPECT_THAT(broken_by([] {
                const OwnedStream stream = make_stream();
                void* const memory = allocate();
                fill(stream.get(), memory);
                EXPECT_TRUE(std::isnan(static_cast<float*>(memory)[3]));
                while (cudaStreamQuery(stream.get()) == cudaErrorNotReady) cudaGetLastError();
                EXPECT_EQ(static_cast<float*>(memory)[3], 1.0F);
                cudaFree(memory);
              }),
              IsEmpty());
}

TEST(RecordedRules, DeviceIsSeenBroken) {
  const std::vector<std::function<void()>> faults{
      [] { std::jthread([] { cudaFree(allocate()); }); },  // which has set none
      [] {
        const OwnedStream stream = make_stream();
        void* const memory = allocate();
        check(cudaSetDevice(1), "cudaSetDevice");
        fill(stream.get(), memory);
        cudaStreamSynchronize(stream.get());
        cudaFree(memory);
      },
      [] {
        void* const memory = allocate();  // which the other does not reach
        check(cudaSetDevice(1), "cudaSetDevice");
        const OwnedStream stream = make_stream();
        fill(stream.get(), memory);
        cudaStreamSynchronize(stream.get());
        cudaFree(memory);
      },
      [] {
        const OwnedEvent event = make_event(cudaEventDisableTiming);
        check(cudaSetDevice(1), "cudaSetDevice");
        const OwnedStream stream = make_stream();
        EXPECT_NE(cudaEventRecord(event.get(), stream.get()), cudaSuccess);
      }};
  for (const auto& fault : faults) EXPECT_THAT(broken_by(fault), Contains(StartsWith("device: ")));
}

TEST(RecordedRules, HandleIsSeenBroken) {
  const std::vector<std::function<void()>> faults{
      [] {
        void* const memory = allocate();
        cudaFree(memory);
        cudaFree(memory);
      },
      [] {
        const OwnedStream stream = make_stream();
        void* const memory = allocate();
        cudaFree(memory);
        fill(stream.get(), memory);
        cudaStreamSynchronize(stream.get());
      },
      [] {
        const cudaStream_t stream = make_stream().release();
        cudaStreamDestroy(stream);
        cudaStreamSynchronize(stream);
      },
      [] {
        const cudaEvent_t event = make_event(cudaEventDefault).release();
        cudaEventDestroy(event);
        cudaEventDestroy(event);
      },
      [] {
        int no_event = 0;
        cudaEventQuery(reinterpret_cast<cudaEvent_t>(&no_event));
      },
      [] {
        void* memory = nullptr;
        cudaHostAlloc(&memory, kBytes, 0);
        cudaFree(memory);  // not cudaFreeHost()
        cudaFreeHost(memory);
      }};
  for (const auto& fault : faults)
    EXPECT_THAT(broken_by(fault), ::testing::ElementsAre(StartsWith("handle: ")));
}

TEST(RecordedRules, PendingIsSeenBroken) {
  EXPECT_THAT(broken_by([] {
                const OwnedStream stream = make_stream();
                void* const memory = allocate();
                fill(stream.get(), memory);
                cudaFree(memory);
                cudaStreamSynchronize(stream.get());
              }),
              ::testing::ElementsAre(StartsWith("pending: cudaFree")));
  EXPECT_THAT(broken_by([] {
                OwnedStream stream = make_stream();
                void* const memory = allocate();
                fill(stream.get(), memory);
                stream.reset();
                cudaDeviceSynchronize();
                cudaFree(memory);
              }),
              ::testing::ElementsAre(StartsWith("pending: cudaStreamDestroy")));
}

TEST(RecordedRules, OrderIsSeenBroken) {
  for (const bool waits : {false, true}) {
    EXPECT_THAT(broken_by([waits] {
                  const OwnedStream stream = make_stream();
                  const OwnedEvent event = make_event(cudaEventDisableTiming);
                  if (waits) {
                    cudaStreamWaitEvent(stream.get(), event.get(), 0);
                  } else {
                    cudaEventQuery(event.get());
                  }
                }),
                ::testing::ElementsAre(StartsWith("order: ")));
  }
}

TEST(RecordedRules, LeakIsSeenBroken) {
  EXPECT_THAT(broken_by([] {
                make_stream().release();
                make_event(cudaEventDefault).release();
                allocate();
                allocate_pinned(kBytes).release();
              }),
              ::testing::AllOf(SizeIs(4), ::testing::Each(StartsWith("leak: "))));
}

TEST(RecordedRules, WhatIsMadeLateIsCounted) {
  recorder().begin({});
  check(cudaSetDevice(0), "cudaSetDevice");
  const OwnedStream stream = make_stream();
  void* const memory = allocate();
  std::jthread([&] {
    check(cudaSetDevice(0), "cudaSetDevice");
    fill(stream.get(), memory);
    cudaFree(allocate());
  }).join();
  EXPECT_THAT(recorder().end().made_late, ::testing::ElementsAre(::testing::Pair("cudaMalloc", 1)));
  cudaFree(memory);
}

/// A whole run, all of whose calls of one function are lost.
RecordedRun run_without(const std::string& call, int gpus) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  return run_recorded(test, lower(test.make()), {.gpus = gpus, .lost = {call}});
}

TEST(RecordedRules, AreSeenBrokenInARun) {
  for (const auto& [call, rule] :
       std::vector<std::pair<std::string, std::string>>{{"cudaSetDevice", "device: "},
                                                        {"cudaDeviceEnablePeerAccess", "device: "},
                                                        {"cudaEventRecord", "order: "},
                                                        {"cudaFree", "leak: memory"},
                                                        {"cudaFreeHost", "leak: memory"},
                                                        {"cudaEventDestroy", "leak: event"},
                                                        {"cudaStreamDestroy", "leak: stream"}}) {
    const bool is_leak = rule.starts_with("leak: ");
    const std::string start = is_leak ? "leak: " : rule;
    EXPECT_THAT(run_without(call, 2).recording.broken, Contains(StartsWith(start))) << call;
  }
  EXPECT_THAT(run_without("cuGreenCtxDestroy", 1).recording.broken, Contains(StartsWith("leak: ")));
}

// A whole run's streams have ended before; one that fails must wait for them.
TEST(RecordedRules, PendingIsSeenBrokenInARunThatFails) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  const RecordedRun run = run_recorded(test, lower(test.make()),
                                       {.gpus = 3,
                                        .failure = Failure{"cudaStreamWaitEvent", 40},
                                        .lost = {"cudaStreamSynchronize"}});
  EXPECT_FALSE(run.report);
  EXPECT_THAT(run.recording.broken, Contains(StartsWith("pending: cudaFree: memory")));
}

TEST(RecordedRules, WithoutWaitsSomethingElseIsTrained) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  const Program program = lower(test.make());
  // Times of transfers would not be there.
  const auto without_times = [](TrainingSetup<float>& setup) { setup.keep_timeline = false; };
  const RecordedRun whole = run_recorded(test, program, {.gpus = 3}, without_times),
                    lost = run_recorded(test, program, {.gpus = 3, .lost = {"cudaStreamWaitEvent"}},
                                        without_times);
  ASSERT_TRUE(whole.report && lost.report) << lost.error;
  EXPECT_NE(lost.report->losses, whole.report->losses);
}

}  // namespace
}  // namespace tandem::cuda::recorded
