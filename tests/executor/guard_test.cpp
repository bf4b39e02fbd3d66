// Clipping and the guard against gradients that are not finite: the same bits however the model is
// cut, as the serial reference says, and one decision for all stages.

#include <atomic>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/stage/gradient_guard.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

using testing::by_executor;
using testing::by_reference;
using ::testing::HasSubstr;
using testing::TrainingCase;
using namespace std::chrono_literals;

/// A norm that the tiny model's gradients exceed at first.
constexpr double kTightNorm = 0.5;

TrainingCase clipped(const char* schedule, std::uint16_t devices) {
  TrainingCase test;
  test.schedule = schedule;
  test.devices = devices;
  test.guard = {.clip = ClipScope::global, .most_norm = kTightNorm};
  test.optimizer.kind = OptimizerKind::momentum;  // Adam hardly feels a scale
  return test;
}

TEST(Decision, ScalesOnlyWhatIsTooLong) {
  const GradientGuard guard{.clip = ClipScope::global, .most_norm = 2.5};
  const double squares[] = {9.0, 16.0};
  EXPECT_EQ(decide(guard, squares).norm, 5.0);
  EXPECT_EQ(decide(guard, squares).scale, 0.5);
  EXPECT_EQ(decide({.clip = ClipScope::global, .most_norm = 5.0}, squares).scale, 1.0);
  EXPECT_EQ(decide({}, squares).scale, 1.0);
  EXPECT_FALSE(decide(guard, squares).skip);
}

TEST(Decision, SkipsWhatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const double squares[] = {1.0, bad, 2.0};
    EXPECT_TRUE(decide({}, squares).skip);
    EXPECT_EQ(first_non_finite(squares), std::size_t{1});
  }
}

TEST(Squares, CountATiedTableOnceAndScale) {
  const cpu::Kernels<float> kernels;
  std::vector<Tensor> tensors(2);
  tensors[0] = {.name = kTokenTable, .shape = {3}};
  tensors[1] = {.name = kHeadTable, .shape = {11}, .offset = 3};
  std::vector<float> gradients(14, 2.0F);
  std::vector<double> squares(2);
  sum_squares(kernels, std::span<const Tensor>(tensors), true, 0.5,
              std::span<const float>(gradients), squares);
  EXPECT_EQ(squares, (std::vector<double>{3.0, 0.0}));
  squares = {0.0, 0.0};
  sum_squares(kernels, std::span<const Tensor>(tensors), false, 1.0,
              std::span<const float>(gradients), squares);
  EXPECT_EQ(squares, (std::vector<double>{12.0, 44.0}));
}

TEST(Clipping, ByTheGlobalNormEqualsTheReferenceBitForBit) {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "1f1b-v"}) {
    for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{3}}) {
      for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
        TrainingCase test = clipped(schedule, devices);
        test.width = width;
        const auto reference = by_reference<float>(test, test.semantics());
        expect_equal(by_executor<float>(test, testing::seeded_delays(8, 300us)), reference);
        TrainingCase free = test;
        free.guard = {};
        EXPECT_NE(by_reference<float>(free, test.semantics()).weights, reference.weights)
            << "nothing was clipped";
      }
    }
  }
}

// Planted: each stage clips by its own norm. That must not pass for the global one.
TEST(Clipping, ByStageNormsIsAnotherTrajectory) {
  TrainingCase test = clipped("1f1b", 2);
  test.model.tied = false;
  const auto global = by_reference<float>(test, WeightSemantics::vanilla);
  test.guard.clip = ClipScope::per_stage;
  const auto reference = by_reference<float>(test, WeightSemantics::vanilla);
  expect_equal(by_executor<float>(test), reference);
  EXPECT_NE(reference.weights, global.weights);
}

TEST(Clipping, PerStageServesStashedWeights) {
  TrainingCase test = clipped("pipedream", 4);
  test.model.tied = false;
  test.guard.clip = ClipScope::per_stage;
  test.replicas = {2, 1, 1};
  expect_equal(by_executor<float>(test, testing::seeded_delays(9, 300us)),
               by_reference<float>(test, WeightSemantics::stashed));
}

TEST(Clipping, RefusesWhatCannotBeDefined) {
  TrainingCase test = clipped("1f1b", 2);
  test.guard.clip = ClipScope::per_stage;
  EXPECT_THROW(by_executor<float>(test), InputError) << "tied ends would drift apart";
  test = clipped("1f1b", 2);
  TrainingCase without = test;
  without.guard = {};
  const Program program = lower(without.make());
  EXPECT_THROW(by_executor<float>(test, program, count_slots(program)), InputError);
}

TEST(Norm, IsReportedAlikeForEveryPartition) {
  const auto norms = [](const char* schedule, std::uint16_t devices) {
    TrainingCase test;
    test.schedule = schedule;
    test.devices = devices;
    const Program program = lower(test.make());
    std::vector<double> found;
    by_executor<float>(test, program, count_slots(program), {}, [&](TrainingSetup<float>& setup) {
      setup.on_step = [&](const StepReport& step) {
        EXPECT_EQ(step.batch, std::ssize(found));
        found.push_back(step.gradient_norm);
      };
    });
    EXPECT_EQ(std::ssize(found), test.batches);
    return found;
  };
  const std::vector<double> whole = norms("gpipe", 1);
  EXPECT_GT(whole.front(), 0.0);
  EXPECT_EQ(norms("gpipe", 3), whole);
  EXPECT_EQ(norms("1f1b", 4), whole);
  EXPECT_EQ(norms("1f1b-v", 2), whole);
  EXPECT_NE(norms("2bw", 2), whole) << "other weights from the third batch on";
}

/// The weights grow in a few steps until gradients overflow; at a rate of 1 they do so before the
/// weights.
TrainingCase exploding(const char* schedule, std::uint16_t devices) {
  TrainingCase test;
  test.schedule = schedule;
  test.devices = devices;
  test.batches = 12;
  test.model = {.name = "linear",
                .architecture = Architecture::linear,
                .blocks = 3,
                .width = 4,
                .heads = 1,
                .sequence = 2,
                .vocabulary = 256,
                .tied = false};
  test.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1.0};
  return test;
}

TEST(NonFinite, StopsTheRunAndNamesUpdateAndTensor) {
  for (const bool global : {false, true}) {
    TrainingCase test = exploding("1f1b", 2);
    if (global) test.guard = {.clip = ClipScope::global, .most_norm = 1e30};
    try {
      by_executor<float>(test);
      ADD_FAILURE() << "trained on";
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("update "));
      EXPECT_THAT(error.what(), HasSubstr("the gradient of linear"));
      EXPECT_THAT(error.what(), HasSubstr("device "));
    }
  }
}

TEST(NonFinite, IsSkippedByAllStagesAlike) {
  for (const auto& [schedule, correction] :
       {std::pair("1f1b", DelayCorrection::none), std::pair("2bw", DelayCorrection::none),
        std::pair("2bw", DelayCorrection::error_feedback)}) {
    TrainingCase test = exploding(schedule, 3);
    test.guard.on_nan = NonFinite::skip;
    test.optimizer.correction = correction;
    const auto reference = by_reference<float>(test, test.semantics());
    const Program program = lower(test.make());
    std::vector<bool> skipped;
    expect_equal(by_executor<float>(test, program, count_slots(program), {},
                                    [&](TrainingSetup<float>& setup) {
                                      setup.on_step = [&](const StepReport& step) {
                                        skipped.push_back(step.skipped);
                                      };
                                    }),
                 reference);
    EXPECT_FALSE(skipped.front());
    EXPECT_TRUE(skipped.back()) << "the model never exploded";
    const auto before = std::pair(test.batches - 1, std::string("linear0.weight"));
    const auto last = std::pair(test.batches, before.second);
    EXPECT_EQ(reference.weights.at(last), reference.weights.at(before));
    EXPECT_EQ(reference.optimizer.at(last), reference.optimizer.at(before));
  }
}

}  // namespace
}  // namespace tandem
