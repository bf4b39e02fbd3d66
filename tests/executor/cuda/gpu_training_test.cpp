// Training on a GPU: the same programs, against the CPU. What is rounded otherwise drifts, so it is
// a few updates, and a tolerance.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/backends.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/memory_plan.h"
#include "executor/cuda/runtime/check.h"
#include "executor/cuda/runtime/raii.h"
#include "executor/train.h"
#include "tests/support/training.h"
#include "tests/support/validated.h"

namespace tandem {
namespace {

using testing::TrainingCase;

TrainingReport<float> train_on(const char* backend, const TrainingCase& test,
                               const Program& program, bool by_messages = false,
                               Storage storage = Storage::f32) {
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  setup.by_messages = by_messages;
  setup.stage.storage = storage;
  return find_backend(backend).make()->train(program, setup);
}

void expect_close(const TrainingReport<float>& gpu, const TrainingReport<float>& cpu,
                  double tolerance = 1e-3) {
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], tolerance * cpu.losses[i]) << "microbatch " << i;
  ASSERT_EQ(gpu.weights.size(), cpu.weights.size());
  for (std::size_t i = 0; i < cpu.weights.size(); ++i) {
    double difference = 0.0, length = 0.0;
    for (std::size_t j = 0; j < cpu.weights[i].values.size(); ++j) {
      const double expected = cpu.weights[i].values[j];
      difference += std::pow(gpu.weights[i].values[j] - expected, 2);
      length += expected * expected;
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(length) + 1e-6) << cpu.weights[i].name;
  }
}

TEST(GpuTraining, IsTheCpusButForRounding) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "zb-h1", "chimera", "bpipe"}) {
    for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
      TrainingCase test = TrainingCase::on(schedule, 4);
      test.width = width;
      test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 1e-2};
      test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      SCOPED_TRACE(fmt::format("{} width {}", schedule, width));
      const Program program = lower(test.make());
      const TrainingReport<float> gpu = train_on("cuda", test, program);
      const TrainingReport<float> cpu = train_on("cpu", test, program);
      expect_close(gpu, cpu);
      EXPECT_EQ(gpu.high_water, cpu.high_water);
      ASSERT_EQ(gpu.timelines.size(), width);
      for (const Span& span : gpu.timelines[0].spans) EXPECT_LE(span.start, span.end);
    }
  }
}

/// Twice on the GPU, the same bits; the CPU's but for rounding, in the same memory.
void expect_as_on_the_cpu(const TrainingCase& test, Storage storage) {
  SCOPED_TRACE(fmt::format("{} width {}{}", test.schedule, test.width,
                           storage == Storage::bf16 ? " in bf16" : ""));
  const Program program = lower(test.make());
  const TrainingReport<float> gpu = train_on("cuda", test, program, false, storage);
  const TrainingReport<float> cpu = train_on("cpu", test, program);
  expect_close(gpu, cpu, storage == Storage::bf16 ? 1e-2 : 1e-3);
  expect_close(train_on("cuda", test, program, false, storage), gpu, 0.0);
  if (storage == Storage::f32) {
    EXPECT_EQ(gpu.high_water, cpu.high_water);
  } else {
    EXPECT_NE(gpu.losses, cpu.losses);
  }
}

// Forwards and backwards read planes that updates make, or the newest weights, or two steps in one.
TEST(GpuTraining, OfAsynchronousRowsIsTheCpusButForRounding) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule :
       {"pipemare", "spectrain", "pipeoptim", "xpipe", "timeprest", "timeprest-i", "paci", "2bw"}) {
    TrainingCase test = TrainingCase::on(schedule, 4);
    ASSERT_TRUE(test.take_microbatches(4)) << schedule;
    test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 1e-2};
    if (test.schedule == "2bw") test.optimizer.correction = DelayCorrection::error_feedback;
    for (const Storage storage : {Storage::f32, Storage::bf16}) expect_as_on_the_cpu(test, storage);
  }
}

TEST(GpuTraining, OfSlicesIsTheCpusButForRounding) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule : {"terapipe", "seq1f1b", "seq1f1b-zb", "seq1f1b-i"}) {
    TrainingCase test = TrainingCase::on(schedule, 2);
    test.slices = {4, 2};
    ASSERT_TRUE(test.take_microbatches(4)) << schedule;
    test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 1e-2};
    for (const Storage storage : {Storage::f32, Storage::bf16}) expect_as_on_the_cpu(test, storage);
    test.recompute = Recompute::full;
    expect_as_on_the_cpu(test, Storage::f32);
  }
}

/// Large enough for what is allocated to be seen in what is free.
TrainingCase large_case(std::uint16_t devices) {
  TrainingCase test = TrainingCase::on("1f1b", devices);
  test.model = {.name = "large",
                .blocks = 4,
                .width = 768,
                .heads = 8,
                .sequence = 128,
                .vocabulary = 8192,
                .tied = false};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  test.microbatch_size = 4;
  test.batches = 2;
  return test;
}

Bytes free_of_all_gpus() {
  int gpus = 0;
  cuda::check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  Bytes free = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) free += cuda::free_memory(gpu);
  return free;
}

TEST(GpuTraining, TakesTheMemoryThatIsPlanned) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}}) {
    SCOPED_TRACE(devices);
    const TrainingCase test = large_case(devices);
    const Program program = lower(test.make());
    const Data data = testing::data_of(test);
    TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
    const Bytes before = free_of_all_gpus();
    Bytes least = before;
    setup.on_step = [&least](const StepReport&) { least = std::min(least, free_of_all_gpus()); };
    const std::unique_ptr<Trainer> trainer = find_backend("cuda").make();
    const TrainingReport<float> report = trainer->train(program, setup);
    EXPECT_EQ(report.high_water, testing::planned_memory(test, program, setup.slots));
    EXPECT_EQ(report.workspace, trainer->planned_workspace(program, setup.stage));
    Bytes planned = 0;
    for (const DeviceId device : ids(report.high_water))
      planned += report.high_water[device].total() + report.workspace[device];
    EXPECT_GE(before - least, planned);
    EXPECT_LE(before - least, planned + devices * cuda::kBesidePlan);
  }
}

TEST(GpuTraining, RefusesWhatDoesNotFitBeforeItAllocates) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  TrainingCase test = large_case(2);
  test.model.width = 1 << 15;
  test.model.blocks = 256;
  const Program program = lower(test.make());
  try {
    train_on("cuda", test, program);
    ADD_FAILURE() << "12 TiB";
  } catch (const InfeasibleError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("workspace"));
  }
}

TEST(GpuTraining, RollsBackWhatWasClipped) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const double most_norm : {testing::kNever, testing::kAlways}) {
    TrainingCase test = testing::validated("zb-h2", 3, most_norm);
    test.optimizer.learning_rate = 1e-2;
    const Program program = lower(test.make());
    const Data data = testing::data_of(test);
    TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
    std::int64_t rolled_back = 0;
    setup.on_step = [&rolled_back](const StepReport& step) { rolled_back += step.rolled_back; };
    expect_close(find_backend("cuda").make()->train(program, setup),
                 train_on("cpu", test, program));
    EXPECT_EQ(rolled_back, most_norm == testing::kAlways ? test.batches : 0);
  }
}

std::string why_no_nccl(std::uint16_t gpus) {
  if (std::string why = why_no_cuda(); !why.empty()) return why;
  if (std::string why = find_nccl().why_absent; !why.empty()) return why;
  int found = 0;
  cuda::check(cudaGetDeviceCount(&found), "cudaGetDeviceCount");
  return found < gpus ? fmt::format("{} GPUs, and {} are needed", found, gpus) : "";
}

// As many devices as GPUs: on one there is nobody to send to.
TEST(GpuTraining, OverNcclIsTheCpusButForRounding) {
  for (const std::uint16_t gpus : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{4}}) {
    if (const std::string why = why_no_nccl(gpus); !why.empty()) GTEST_SKIP() << why;
    for (const char* schedule : {"1f1b", "2bw", "chimera"}) {
      TrainingCase test = TrainingCase::on(schedule, gpus);
      if (!test.is_served()) continue;
      test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 1e-2};
      SCOPED_TRACE(fmt::format("{} on {} GPUs", schedule, gpus));
      const Program program = lower(test.make());
      const TrainingReport<float> gpu = train_on("cuda", test, program, true);
      const TrainingReport<float> cpu = train_on("cpu", test, program);
      expect_close(gpu, cpu);
      EXPECT_EQ(gpu.high_water, cpu.high_water);
    }
  }
}

TEST(GpuTraining, StoresBfloat16) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule : {"1f1b", "2bw", "zb-h1"}) {
    TrainingCase test = TrainingCase::on(schedule, 2);
    test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 1e-2};
    SCOPED_TRACE(schedule);
    const Program program = lower(test.make());
    const TrainingReport<float> gpu = train_on("cuda", test, program, false, Storage::bf16);
    const TrainingReport<float> cpu = train_on("cpu", test, program);
    expect_close(gpu, cpu, 1e-2);
    EXPECT_NE(gpu.losses, cpu.losses);
    const TrainingReport<float> again = train_on("cuda", test, program, false, Storage::bf16);
    expect_close(gpu, again, 0.0);
    for (const DeviceId device : ids(cpu.high_water)) {
      EXPECT_EQ(2 * gpu.high_water[device].versions, cpu.high_water[device].versions);
      EXPECT_LT(gpu.high_water[device].activations, cpu.high_water[device].activations);
    }
  }
}

TEST(GpuTraining, RefusesTwoDevicesOfNcclOnAGpu) {
  if (const std::string why = why_no_nccl(1); !why.empty()) GTEST_SKIP() << why;
  if (why_no_nccl(2).empty()) GTEST_SKIP() << "each device has a GPU of its own";
  const TrainingCase test{.schedule = "1f1b", .devices = 2};
  EXPECT_THROW(train_on("cuda", test, lower(test.make()), true), AbsentError);
}

TEST(GpuTraining, RefusesWhatItDoesNotDo) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  const TrainingCase test{.schedule = "1f1b", .devices = 2};
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  setup.link_rate = 1e9;
  EXPECT_THROW(find_backend("cuda").make()->train(program, setup), InputError);
}

}  // namespace
}  // namespace tandem
