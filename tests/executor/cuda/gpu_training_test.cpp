// Training on a GPU: the same programs, against the CPU. What is rounded otherwise drifts, so it is
// a few updates, and a tolerance.

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/train.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::TrainingCase;

TrainingReport<float> train_on(const char* backend, const TrainingCase& test,
                               const Program& program) {
  const Data data = testing::data_of(test);
  return make_trainer(backend)->train(program, testing::setup_of<float>(test, program, data));
}

void expect_close(const TrainingReport<float>& gpu, const TrainingReport<float>& cpu) {
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 1e-3 * cpu.losses[i]) << "microbatch " << i;
  ASSERT_EQ(gpu.weights.size(), cpu.weights.size());
  for (std::size_t i = 0; i < cpu.weights.size(); ++i) {
    double difference = 0.0, length = 0.0;
    for (std::size_t j = 0; j < cpu.weights[i].values.size(); ++j) {
      const double expected = cpu.weights[i].values[j];
      difference += std::pow(gpu.weights[i].values[j] - expected, 2);
      length += expected * expected;
    }
    EXPECT_LE(std::sqrt(difference), 1e-3 * std::sqrt(length) + 1e-6) << cpu.weights[i].name;
  }
  EXPECT_EQ(gpu.high_water, cpu.high_water);
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
      expect_close(gpu, train_on("cpu", test, program));
      ASSERT_EQ(gpu.timelines.size(), width);
      for (const Span& span : gpu.timelines[0].spans) EXPECT_LE(span.start, span.end);
    }
  }
}

TEST(GpuTraining, RefusesWhatItDoesNotDo) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  TrainingCase test{.schedule = "zb-h2", .devices = 2, .post_validation = true};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  EXPECT_THROW(train_on("cuda", test, lower(test.make())), InputError);
}

}  // namespace
}  // namespace tandem
