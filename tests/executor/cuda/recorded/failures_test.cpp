// Each function of CUDA's that a training run calls fails once: its first call, one in the middle
// and the last. The run ends with an error that names it, or goes on where that is right; nothing
// leaks, nothing is freed too early, and the thread that was told submits no more. All that divides
// a GPU fails once, too: the GPU is shared whole then, and what is trained is the same.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/partition.h"
#include "tests/executor/cuda/recorded/recorded_run.h"

namespace tandem::cuda::recorded {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TrainingCase;

/// Of a function the first and the number behind the last of its calls that divide a GPU.
struct Dividing {
  std::int64_t first = 0, end = 0;
  bool has(std::int64_t number) const { return first <= number && number < end; }
};

/// The functions of one run that divide a GPU: from where it asks for the driver's on, as many
/// calls as a GPU that nothing else is done with takes. Empty where none is divided.
std::map<std::string, Dividing> dividing_calls(const RecordedRun& run, MachineSetup machine) {
  constexpr const char* kFirst = "cudaGetDriverEntryPointByVersion";
  const auto begins = [&](const RecordedCall& call) { return call.name == std::string(kFirst); };
  const std::size_t parts = run.recording.counts()["cuGreenCtxCreate"];
  if (parts == 0) return {};
  machine.failure.reset();
  recorder().begin(machine);
  EXPECT_EQ(divide(0, parts).parts.size(), parts);
  const std::vector<RecordedCall> alone = recorder().end().calls, &all = run.recording.calls;
  auto expected = std::ranges::find_if(alone, begins);
  std::map<std::string, std::int64_t> numbers;
  auto call = all.begin();
  for (; call != all.end() && !begins(*call); ++call) ++numbers[call->name];
  std::map<std::string, Dividing> found;
  // At its end the parts are destroyed.
  for (; expected != alone.end() - static_cast<std::ptrdiff_t>(parts); ++expected, ++call) {
    if (call == all.end() || call->name != std::string(expected->name)) {
      ADD_FAILURE() << expected->name << " is not what the run calls";
      return {};
    }
    const std::int64_t number = numbers[call->name]++;
    found.try_emplace(call->name, number, number).first->second.end = number + 1;
  }
  return found;
}

/// Whose failure a run may outlive: what frees, for nothing is left to do.
bool may_be_outlived(const std::string& call) {
  return call.find("Destroy") != std::string::npos || call.find("Free") != std::string::npos ||
         call == "cudaStreamSynchronize";
}

struct Outcomes {
  int injected = 0, ended = 0, outlived = 0, not_reached = 0;
};

/// The failure, in a run that is else like `whole`, which calls the function `count` times, some of
/// them to divide a GPU.
void fail_once(const TrainingCase& test, const Program& program, MachineSetup machine,
               const RecordedRun& whole, std::int64_t count, const Dividing& dividing,
               const Failure& failure, Outcomes& outcomes) {
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
    EXPECT_TRUE(may_be_outlived(failure.call) || dividing.has(failure.number) ||
                (failure.call == "cudaSetDevice" &&
                 failure.number + std::ssize(whole.report->high_water) >= count));
    EXPECT_EQ(run.report->losses, whole.report->losses);
    return;
  }
  ++outcomes.ended;
  EXPECT_FALSE(dividing.has(failure.number)) << run.error;
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
  std::map<std::string, Dividing> dividing = dividing_calls(whole, machine);
  Outcomes outcomes;
  for (const auto& [call, count] : whole.recording.counts()) {
    if (call == "cudaGetLastError") continue;
    const bool allocates = call == "cudaMalloc" || call == "cudaHostAlloc";
    std::set<std::int64_t> numbers{0, count / 2, count - 1};
    // How often is a matter of time.
    if (call.ends_with("Query")) numbers = {0, count / 2};
    // The first that divides nothing.
    if (dividing[call].has(0) && dividing[call].end < count) numbers.insert(dividing[call].end);
    for (const std::int64_t number : numbers) {
      fail_once(test, program, machine, whole, count, dividing[call],
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

/// Whether its failure shows.
bool is_made_to_divide(const std::string& call) {
  return !call.ends_with("Destroy") && call != "cudaStreamSynchronize";
}

TEST(CudaFailures, OfEachCallThatDividesAGpuLeaveItWhole) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  const Program program = lower(test.make());
  const RecordedRun whole = run_recorded(test, program, {});
  ASSERT_TRUE(whole.report) << whole.error;
  int failed = 0;
  for (const auto& [call, dividing] : dividing_calls(whole, {})) {
    for (std::int64_t number = dividing.first; number < dividing.end; ++number) {
      SCOPED_TRACE(fmt::format("{} number {}", call, number));
      std::vector<std::string> notices;
      const RecordedRun run = run_recorded(
          test, program, {.failure = Failure{call, number}}, [&](TrainingSetup<float>& setup) {
            setup.on_notice = [&](const std::string& notice) { notices.push_back(notice); };
          });
      ASSERT_TRUE(run.recording.failed && run.report) << run.error;
      ++failed;
      EXPECT_EQ(run.report->losses, whole.report->losses);
      EXPECT_THAT(run.recording.broken, IsEmpty());
      EXPECT_THAT(run.recording.made_late, IsEmpty());
      std::map<std::string, std::int64_t> counts = run.recording.counts();
      if (!is_made_to_divide(call)) {
        EXPECT_THAT(notices, IsEmpty());
        EXPECT_EQ(counts["cudaStreamCreateWithPriority"], 0);
        continue;
      }
      EXPECT_THAT(notices, ElementsAre(HasSubstr("3 devices share GPU 0 whole: ")));
      EXPECT_EQ(counts["cudaStreamCreateWithPriority"],
                whole.recording.counts()["cuGreenCtxStreamCreate"] - 2 * 3);
    }
  }
  // Functions found, shares made, and of each two streams, two events and two times.
  EXPECT_GE(failed, 6 + 2 + 3 * (2 + 2 + 2 + 2));
}

// Undivided it would fail as well.
TEST(CudaFailures, OfTheGpuThatIsDividedEndTheRun) {
  const TrainingCase test = TrainingCase::on("1f1b", 2);
  const RecordedRun run =
      run_recorded(test, lower(test.make()),
                   {.failure = Failure{"cudaEventSynchronize", 0, cudaErrorLaunchFailure}});
  EXPECT_TRUE(run.is_device_error);
  EXPECT_THAT(run.error, HasSubstr("cudaErrorLaunchFailure"));
  EXPECT_EQ(run.recording.counts()["cudaStreamCreateWithPriority"], 0);
  EXPECT_THAT(run.recording.broken, IsEmpty());
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
