// Post-validation: stages step before they know the norm of all gradients, and take the step back
// where it was wrong. What is trained must be, bit for bit, what waiting for the norm trains.

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/verify/verify.h"
#include "tests/support/pipelines.h"
#include "tests/support/trajectory.h"
#include "tests/support/validated.h"

namespace tandem {
namespace {

using testing::by_executor;
using testing::by_reference;
using testing::kAlways;
using testing::kNever;
using testing::kSometimes;
using testing::TrainingCase;
using testing::validated;
using namespace std::chrono_literals;

/// Trains, against the reference. The batches whose updates were rolled back.
std::vector<std::int64_t> rolled_back(const TrainingCase& test, std::uint64_t delays = 0,
                                      std::int64_t pause_every = 0) {
  const Program program = lower(test.make());
  std::vector<std::int64_t> batches;
  const auto trace = by_executor<float>(test, program, count_slots(program),
                                        delays == 0 ? std::function<void(DeviceId, Instance)>()
                                                    : testing::seeded_delays(delays, 100us),
                                        [&](TrainingSetup<float>& setup) {
                                          setup.pause_every = pause_every;
                                          setup.on_step = [&](const StepReport& step) {
                                            if (step.rolled_back) batches.push_back(step.batch);
                                          };
                                        });
  expect_equal(trace, by_reference<float>(test, test.semantics()));
  return batches;
}

std::string test_name_of(const TrainingCase& test) {
  return fmt::format("{} p{} m{} width {}", test.schedule, test.devices, test.microbatches,
                     test.width);
}

TEST(PostValidation, TrainsWhatWaitingForTheNormTrains) {
  std::mt19937_64 random(11);
  for (const char* schedule : {"zb-h1", "zb-h2"}) {
    for (std::uint16_t devices = 2; devices <= 6; ++devices) {
      for (const double most_norm : {kNever, kSometimes, kAlways}) {
        TrainingCase test = validated(schedule, devices, most_norm);
        test.model.blocks = devices;
        test.batches = 3;
        test.width = static_cast<std::uint16_t>(1 + random() % 2);
        test.take_microbatches(static_cast<std::int32_t>(1 + random() % 9));
        SCOPED_TRACE(test_name_of(test));
        const std::vector<std::int64_t> batches = rolled_back(test, random());
        if (most_norm == kNever) {
          EXPECT_TRUE(batches.empty());
        }
        if (most_norm == kAlways) {
          EXPECT_EQ(std::ssize(batches), test.batches);
        }
      }
    }
  }
}

class PostValidationOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Schedules, PostValidationOf,
                         ::testing::ValuesIn(testing::synchronous_schedules()), testing::test_name);

TEST_P(PostValidationOf, TrainsTheSame) {
  for (const std::uint16_t devices : {std::uint16_t{2}, std::uint16_t{4}}) {
    TrainingCase test = validated(GetParam(), devices, kAlways);
    test.batches = 3;
    test.width = devices == 2 ? 2 : 1;
    const std::uint16_t only = find_schedule(GetParam()).only_devices;
    if (only != 0) test.devices = only;
    test.take_microbatches(3);
    SCOPED_TRACE(test_name_of(test));
    EXPECT_EQ(std::ssize(rolled_back(test, devices)), test.batches);
  }
}

TEST(PostValidation, RollsBackOnlyTheBatchesThatAreClipped) {
  TrainingCase test = validated("zb-h2", 3, kSometimes);
  test.batches = 8;
  test.microbatches = 7;
  std::vector<double> norms;
  TrainingCase waiting = test;
  waiting.post_validation = false;
  const Program program = lower(waiting.make());
  by_executor<float>(waiting, program, count_slots(program), {}, [&](TrainingSetup<float>& setup) {
    setup.on_step = [&](const StepReport& step) {
      norms.push_back(step.gradient_norm);
      EXPECT_FALSE(step.rolled_back);
    };
  });
  // One of the batches is at the bound, which is not beyond it; some are below, some above.
  std::vector<double> sorted = norms;
  std::ranges::sort(sorted);
  test.guard.most_norm = norms.front();
  std::vector<std::int64_t> batches = rolled_back(test);
  EXPECT_FALSE(std::ranges::count(batches, 0)) << "at the bound";
  test.guard.most_norm = sorted[sorted.size() / 2];
  batches = rolled_back(test, 5);
  EXPECT_GT(batches.size(), 0u);
  EXPECT_LT(std::ssize(batches), test.batches);
  EXPECT_EQ(rolled_back(test, 6, 3), batches) << "pauses";
}

TEST(PostValidation, KeepsTheStateOfEveryOptimizerAndEveryRecomputation) {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw, OptimizerKind::nadam,
        OptimizerKind::muon}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::stage}) {
      for (const double most_norm : {kNever, kSometimes}) {
        const bool folds = recompute == Recompute::stage;
        TrainingCase test = validated(folds ? "zbv" : "zb-h2", 2, most_norm);
        test.optimizer.kind = kind;
        test.recompute = recompute;
        SCOPED_TRACE(test_name_of(test));
        const std::vector<std::int64_t> batches = rolled_back(test);
        EXPECT_EQ(batches.empty(), most_norm == kNever);
      }
    }
  }
}

TEST(PostValidation, SkipsWhatIsNotFinite) {
  for (const char* schedule : {"zb-h1", "zb-h2", "zbv"}) {
    for (const bool clips : {false, true}) {
      const TrainingCase test = testing::overflowing(schedule, clips);
      SCOPED_TRACE(test_name_of(test));
      const std::vector<std::int64_t> batches = rolled_back(test, 3);
      EXPECT_GT(batches.size(), 0u) << "the model never exploded";
      EXPECT_LT(batches.size(), 12u);
    }
  }
}

// The rollback is no name for nothing: what it does again is seen at work, and nothing else is.
TEST(PostValidation, DoesAgainTheForwardsAheadAndNoMore) {
  std::vector<testing::Trace<float>> traces;
  for (const double most_norm : {kNever, kAlways}) {
    TrainingCase test = validated("zb-h2", 3, most_norm);
    test.microbatches = 6;
    const Program program = lower(test.make());
    std::atomic<std::int64_t> forwards = 0, others = 0;
    const auto count = [&](DeviceId, Instance instance) {
      const OpKind kind = program[instance.id].op.kind;
      if (kind == OpKind::forward) ++forwards;
      if (is_compute(kind) && kind != OpKind::forward) ++others;
    };
    traces.push_back(by_executor<float>(test, program, count_slots(program), count));
    const std::int64_t once = test.batches * 3 * test.microbatches;
    // 2 (p − d) − 1 of them on device d, but after the last batch.
    const std::int64_t again = most_norm == kAlways ? (test.batches - 1) * (5 + 3 + 1) : 0;
    EXPECT_EQ(forwards, once + again);
    EXPECT_EQ(others, 2 * once);
  }
  EXPECT_NE(traces[0].weights, traces[1].weights) << "stepping as if nothing were clipped is wrong";
}

TEST(PostValidation, TakesTheMemoryThatIsPlanned) {
  for (const char* schedule : {"zb-h1", "zb-h2", "zbv", "1f1b"}) {
    TrainingCase test = validated(schedule, 2, kAlways);
    test.optimizer.kind = OptimizerKind::adamw;
    test.take_microbatches(4);
    SCOPED_TRACE(test_name_of(test));
    const Program program = lower(test.make());
    const Data data = testing::data_of(test);
    const TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
    const TrainingReport<float> report = train_on_cpu<float>(program, setup);
    for (const ReplicaId replica : ids(setup.slots)) {
      EXPECT_EQ(setup.slots[replica][SlotKind::weights], 2);
      EXPECT_EQ(setup.slots[replica][SlotKind::gradients], 1);
    }
    for (const MemoryByClass& device : report.high_water)
      EXPECT_EQ(device.versions, device.weights);
    EXPECT_EQ(report.high_water, testing::planned_memory(test, program, setup.slots));
  }
}

// Planted: a slot too few to go back to; verify() refuses it, and the machine does not get by.
TEST(PostValidation, NeedsTheVersionThatItMayGoBackTo) {
  const TrainingCase test = validated("zb-h1", 2, kAlways);
  const Program program = lower(test.make());
  SlotCounts slots = count_slots(program);
  EXPECT_TRUE(verify(program, slots).empty());
  slots[ReplicaId{0}][SlotKind::weights] = 1;
  const std::vector<Violation> found = verify(program, slots);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().kind, ViolationKind::version_overwritten);
  EXPECT_THROW(by_executor<float>(test, program, slots), DeviceError);
}

}  // namespace
}  // namespace tandem
