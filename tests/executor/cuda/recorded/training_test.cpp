// Whole training runs of every schedule against the recorded CUDA: what is trained is what the CPU
// trains, and every rule of recorder.h holds.

#include <cctype>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/executor/cuda/recorded/recorded_run.h"
#include "tests/support/validated.h"

namespace tandem::cuda::recorded {
namespace {

using ::testing::IsEmpty;
using testing::TrainingCase;

void expect_near(const TrainingReport<float>& gpu, const TrainingReport<float>& cpu) {
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 1e-5 * cpu.losses[i]) << "microbatch " << i;
}

/// The run as it is, which breaks no rule.
void expect_clean(const TrainingCase& test, const MachineSetup& machine,
                  const TrainingReport<float>& cpu, const Program& program,
                  const Change& change = {}) {
  SCOPED_TRACE(fmt::format("{} p{} m{} width {} on {} GPUs", test.schedule, test.devices,
                           test.microbatches, test.width, machine.gpus));
  const RecordedRun run = run_recorded(test, program, machine, change);
  ASSERT_TRUE(run.report) << run.error;
  expect_near(*run.report, cpu);
  EXPECT_THAT(run.recording.broken, IsEmpty());
  EXPECT_THAT(run.recording.made_late, IsEmpty()) << fmt::format("{}", run.recording.made_late);
  // To be read in the XML that --gtest_output=xml writes.
  const std::string on = fmt::format("on {} GPUs", machine.gpus);
  ::testing::Test::RecordProperty("calls " + on, std::to_string(run.recording.calls.size()));
  ::testing::Test::RecordProperty("kernels " + on, std::to_string(run.recording.kernels));
}

void expect_clean(const TrainingCase& test, const MachineSetup& machine) {
  const Program program = lower(test.make());
  expect_clean(test, machine, train_on("cpu", test, program), program);
}

class CudaRuns : public ::testing::TestWithParam<std::string> {};

// Shares of a GPU, and a GPU each.
TEST_P(CudaRuns, KeepTheRules) {
  for (const std::uint16_t devices : {std::uint16_t{3}, std::uint16_t{4}, std::uint16_t{1}}) {
    TrainingCase test = TrainingCase::on(GetParam(), devices);
    if (devices == 1) test.width = 2;
    if (!test.take_microbatches(4)) continue;
    const Program program = lower(test.make());
    const TrainingReport<float> cpu = train_on("cpu", test, program);
    expect_clean(test, {.gpus = 1}, cpu, program);
    expect_clean(test, {.gpus = int{devices} * test.width, .seed = 2}, cpu, program);
    return;
  }
  FAIL() << "neither 3, 4 nor 1 device";
}

TEST(CudaRun, KeepsTheRulesOnSharesOfTwoGpus) {
  TrainingCase test = TrainingCase::on("2bw", 3);
  test.width = 2;
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    test.recompute = recompute;
    expect_clean(test, {.gpus = 2});
    expect_clean(test, {.gpus = 2, .multiprocessors = 7});  // too few to be divided
    expect_clean(test, {.gpus = 2, .has_green_contexts = false});
  }
}

TEST(CudaRun, KeepsTheRulesWhereStepsAreTakenBack) {
  for (const double most_norm : {testing::kNever, testing::kAlways})
    expect_clean(testing::validated("zb-h2", 3, most_norm), {.gpus = 2});
}

TEST(CudaRun, KeepsTheRulesOnSlices) {
  TrainingCase test = TrainingCase::on("seq1f1b", 3);
  test.slices = {2, 3, 1};
  ASSERT_TRUE(test.take_microbatches(4));
  expect_clean(test, {.gpus = 2});
}

TEST(CudaRun, KeepsTheRulesInPauses) {
  const TrainingCase test = TrainingCase::on("zb-h1", 3);
  const Program program = lower(test.make());
  int pauses = 0;
  expect_clean(test, {.gpus = 2}, train_on("cpu", test, program), program,
               [&pauses](TrainingSetup<float>& setup) {
                 setup.pause_every = 2;
                 setup.on_pause = [&pauses](auto...) { ++pauses; };
                 setup.keep_timeline = false;
               });
  EXPECT_GT(pauses, 0);
}

// Of whole versions, and of rows whose updates make planes besides.
TEST(CudaRun, KeepsTheRulesInBfloat16) {
  for (const char* schedule : {"1f1b", "pipemare", "pipeoptim"}) {
    SCOPED_TRACE(schedule);
    const TrainingCase test = TrainingCase::on(schedule, 2);
    const RecordedRun run =
        run_recorded(test, lower(test.make()), {.gpus = 2},
                     [](TrainingSetup<float>& setup) { setup.stage.storage = Storage::bf16; });
    ASSERT_TRUE(run.report) << run.error;
    EXPECT_THAT(run.recording.broken, IsEmpty());
    EXPECT_THAT(run.recording.made_late, IsEmpty());
  }
}

TEST(CudaRun, KeepsTheRulesWhereTheUserStopsIt) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  std::stop_source stop;
  const RecordedRun run =
      run_recorded(test, lower(test.make()), {.gpus = 3}, [&stop](TrainingSetup<float>& setup) {
        setup.stop = stop.get_token();
        setup.on_step = [&stop](const StepReport&) { stop.request_stop(); };
      });
  ASSERT_TRUE(run.report) << run.error;
  EXPECT_TRUE(run.report->interrupted);
  EXPECT_THAT(run.recording.broken, IsEmpty());
}

TEST(CudaRun, RefusesToGoOnWithAText) {
  const TrainingCase test = TrainingCase::on("gpipe", 2);
  const Slice text{.tokens = 2};
  const RecordedRun run =
      run_recorded(test, lower(test.make()), {},
                   [&text](TrainingSetup<float>& setup) { setup.stage.text = &text; });
  EXPECT_FALSE(run.report);
  EXPECT_THAT(run.error, ::testing::HasSubstr("on the CPU alone"));
  EXPECT_EQ(run.recording.counts().count("cudaMalloc"), 0U);
}

/// What each stream was given, in order.
std::map<int, std::vector<std::string>> given(const Recording& recording) {
  std::map<int, std::vector<std::string>> streams;
  for (const RecordedCall& call : recording.calls) {
    if (call.what != nullptr && call.stream >= 0) streams[call.stream].emplace_back(call.what);
  }
  return streams;
}

TEST(CudaRun, GivesEachStreamTheSameKernelsInEveryRun) {
  const TrainingCase test = TrainingCase::on("zbv", 3);
  const Program program = lower(test.make());
  const RecordedRun first = run_recorded(test, program, {.gpus = 3, .seed = 1}),
                    second = run_recorded(test, program, {.gpus = 3, .seed = 2});
  ASSERT_TRUE(first.report && second.report);
  EXPECT_EQ(given(first.recording), given(second.recording));
  EXPECT_EQ(first.report->losses, second.report->losses);
}

std::vector<std::string> all_schedules() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) names.emplace_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, CudaRuns, ::testing::ValuesIn(all_schedules()), [](const auto& name) {
  std::string text = name.param;
  std::erase_if(text, [](char c) { return std::isalnum(c) == 0; });
  return text + std::to_string(name.index);
});

}  // namespace
}  // namespace tandem::cuda::recorded
