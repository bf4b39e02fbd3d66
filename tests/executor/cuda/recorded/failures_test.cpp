// Each function of CUDA's that a training run calls fails once: its first call, one in the middle
// and the last. The run ends with an error that names it, or goes on where that is right; nothing
// leaks, nothing is freed too early, and the thread that was told submits no more.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/executor/cuda/recorded/recorded_run.h"

namespace tandem::cuda::recorded {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TrainingCase;

/// Whose failure a run may outlive: what frees, for nothing is left to do; and what divides a GPU,
/// which is shared whole then.
bool may_be_outlived(const std::string& call) {
  static const std::set<std::string> kDividing{
      "cudaGetDriverEntryPointByVersion", "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount"};
  return call.find("Destroy") != std::string::npos || call.find("Free") != std::string::npos ||
         call == "cudaStreamSynchronize" || kDividing.contains(call);
}

struct Outcomes {
  int injected = 0, ended = 0, outlived = 0, not_reached = 0;
};

/// The failure, in a run that is else like `whole`, which calls the function `count` times.
void fail_once(const TrainingCase& test, const Program& program, MachineSetup machine,
               const RecordedRun& whole, std::int64_t count, const Failure& failure,
               Outcomes& outcomes) {
  SCOPED_TRACE(fmt::format("{} number {}", failure.call, failure.number));
  machine.failure = failure;
  const RecordedRun run = run_recorded(test, program, machine);
  EXPECT_THAT(run.recording.broken, IsEmpty());
  if (!run.recording.failed) {
    // Looks are as many as it takes.
    ++outcomes.not_reached;
    EXPECT_THAT(failure.call, HasSubstr("Query"));
    return;
  }
  ++outcomes.injected;
  if (run.report) {
    ++outcomes.outlived;
    // The last ones of cudaSetDevice() are those of devices that are destroyed.
    EXPECT_TRUE(may_be_outlived(failure.call) ||
                (failure.call == "cudaSetDevice" &&
                 failure.number + std::ssize(whole.report->high_water) >= count));
    EXPECT_EQ(run.report->losses, whole.report->losses);
    return;
  }
  ++outcomes.ended;
  EXPECT_TRUE(run.is_device_error || (run.is_absent_error && failure.call == "cudaGetDeviceCount"));
  const std::string named =
      failure.call == "cudaLaunchKernel" ? std::string("launch of a kernel") : failure.call;
  if (!run.is_absent_error) {
    EXPECT_THAT(run.error, HasSubstr(named));
  }
  if (failure.error == cudaErrorMemoryAllocation) {
    EXPECT_THAT(run.error, HasSubstr("out of memory"));
  }
  EXPECT_EQ(run.recording.submitted_after_failure, 0);
}

void fail_everywhere(const TrainingCase& test, const MachineSetup& machine) {
  const Program program = lower(test.make());
  const RecordedRun whole = run_recorded(test, program, machine);
  ASSERT_TRUE(whole.report) << whole.error;
  Outcomes outcomes;
  for (const auto& [call, count] : whole.recording.counts()) {
    if (call == "cudaGetLastError") continue;
    const bool allocates = call == "cudaMalloc" || call == "cudaHostAlloc";
    std::set<std::int64_t> numbers{0, count / 2, count - 1};
    // How often is a matter of time.
    if (call.ends_with("Query")) numbers = {0, count / 2};
    for (const std::int64_t number : numbers) {
      fail_once(test, program, machine, whole, count,
                {.call = call,
                 .number = number,
                 .error = allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown},
                outcomes);
    }
  }
  ::testing::Test::RecordProperty("injected", outcomes.injected);
  ::testing::Test::RecordProperty("ended the run", outcomes.ended);
  ::testing::Test::RecordProperty("outlived", outcomes.outlived);
  ::testing::Test::RecordProperty("not reached", outcomes.not_reached);
  EXPECT_GT(outcomes.ended, 30);
}

TEST(CudaFailures, EndTheRunOnSharesOfAGpu) { fail_everywhere(TrainingCase::on("1f1b", 2), {}); }

TEST(CudaFailures, EndTheRunOnTwoGpus) {
  fail_everywhere(TrainingCase::on("zb-h1", 3), {.gpus = 2});
}

TEST(CudaFailures, EndTheRunOfReplicas) {
  TrainingCase test = TrainingCase::on("2bw", 2);
  test.width = 2;
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  fail_everywhere(test, {.gpus = 4});
}

TEST(CudaFailures, OfRunningKernelsEndTheRun) {
  for (const int gpus : {1, 3}) {
    const TrainingCase test = TrainingCase::on("1f1b", 3);
    const Program program = lower(test.make());
    const RecordedRun whole = run_recorded(test, program, {.gpus = gpus});
    ASSERT_TRUE(whole.report) << whole.error;
    for (std::int64_t part = 0; part < 8; ++part) {
      const std::int64_t kernel = part * (whole.recording.kernels - 1) / 7;
      SCOPED_TRACE(fmt::format("kernel {} on {} GPUs", kernel, gpus));
      const RecordedRun run = run_recorded(test, program, {.gpus = gpus, .failing_kernel = kernel});
      EXPECT_TRUE(run.is_device_error) << run.error;
      EXPECT_THAT(run.error, HasSubstr("cudaErrorLaunchFailure"));
      EXPECT_THAT(run.recording.broken, IsEmpty());
    }
  }
}

}  // namespace
}  // namespace tandem::cuda::recorded
