// The executor against the serial reference, bit for bit: every weight, the optimizer state and
// every loss, after every update, for every trainable schedule, under seeded random delays.

#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "core/verify.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::TrainingCase;

/// Everything that training leaves behind: by version and tensor name, and losses by microbatch.
template <class T>
struct Trace {
  std::map<std::pair<std::int64_t, std::string>, std::vector<T>> weights, optimizer;
  std::vector<double> losses;
};

template <class T>
Trace<T> by_reference(const TrainingCase& test, WeightSemantics semantics) {
  const Data data = testing::data_of(test);
  Reference<cpu::Kernels<T>> reference(test.model,
                                       {.semantics = semantics,
                                        .optimizer = test.optimizer,
                                        .microbatches = test.microbatches,
                                        .microbatch_size = test.microbatch_size,
                                        .seed = test.seed},
                                       data);
  Trace<T> trace;
  for (std::int64_t batch = 0; batch < test.batches; ++batch) {
    const ReferenceState<T>& state = reference.step();
    for (const auto& [name, values] : state.weights) trace.weights[{state.updates, name}] = values;
    for (const auto& [name, values] : state.optimizer)
      trace.optimizer[{state.updates, name}] = values;
    trace.losses.insert(trace.losses.end(), state.losses.begin(), state.losses.end());
  }
  return trace;
}

template <class T>
Trace<T> by_executor(const TrainingCase& test, const Program& program, const SlotCounts& slots,
                     std::function<void(DeviceId, Instance)> before_work = {}) {
  const Data data = testing::data_of(test);
  TrainingSetup<T> setup = testing::setup_of<T>(test, program, data);
  setup.slots = slots;
  setup.before_work = std::move(before_work);
  Trace<T> trace;
  setup.on_update = [&](StageId stage, std::int64_t version, std::span<const T> weights,
                        std::span<const T> state) {
    const LayerRange layers = setup.layers[index(program.placement().part[stage])];
    const Stage<cpu::Kernels<T>> described(test.model, layers, test.microbatch_size, 1.0);
    for (const Tensor& tensor : described.parameters()) {
      const auto first = weights.begin() + tensor.offset;
      trace.weights[{version, tensor.name}] = {first, first + tensor.size()};
      std::vector<T>& kept = trace.optimizer[{version, tensor.name}];
      for (std::size_t moment = 0; moment * weights.size() < state.size(); ++moment) {
        const auto from =
            state.begin() + static_cast<std::int64_t>(moment * weights.size()) + tensor.offset;
        kept.insert(kept.end(), from, from + tensor.size());
      }
    }
  };
  trace.losses = train_on_cpu<T>(program, setup).losses;
  return trace;
}

template <class T>
Trace<T> by_executor(const TrainingCase& test,
                     std::function<void(DeviceId, Instance)> before_work = {}) {
  const Program program = lower(test.make());
  return by_executor<T>(test, program, count_slots(program), std::move(before_work));
}

template <class T>
void expect_equal(const Trace<T>& executor, const Trace<T>& reference) {
  EXPECT_EQ(executor.losses, reference.losses);
  ASSERT_EQ(executor.weights.size(), reference.weights.size());
  for (const auto& [key, values] : reference.weights) {
    ASSERT_TRUE(executor.weights.contains(key)) << key.second;
    EXPECT_EQ(executor.weights.at(key), values) << key.second << " after update " << key.first;
  }
  for (const auto& [key, values] : reference.optimizer) {
    EXPECT_EQ(executor.optimizer.at(key), values)
        << "optimizer state of " << key.second << " after " << key.first;
  }
}

using Cell = std::tuple<std::string, int, int, Recompute>;

class Semantics : public ::testing::TestWithParam<Cell> {};

TEST_P(Semantics, OfTheExecutorEqualTheReferenceBitForBit) {
  const auto [schedule, devices, microbatches, recompute] = GetParam();
  TrainingCase test{.schedule = schedule,
                    .devices = static_cast<std::uint16_t>(devices),
                    .microbatches = microbatches,
                    .recompute = recompute};
  if (test.semantics() == WeightSemantics::delayed_by_one && microbatches < devices) {
    EXPECT_THROW(test.make(), InputError);
    return;
  }
  const auto reference = by_reference<float>(test, test.semantics());
  expect_equal(by_executor<float>(test), reference);
  for (const std::uint64_t seed : {1u, 2u}) {
    expect_equal(
        by_executor<float>(test, testing::seeded_delays(seed, std::chrono::microseconds(300))),
        reference);
  }
}

std::vector<std::string> trainable() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) {
    if (row.trainable) names.emplace_back(row.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, Semantics,
                         ::testing::Combine(::testing::ValuesIn(trainable()),
                                            ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 2, 3, 5, 8),
                                            ::testing::Values(Recompute::none, Recompute::full)),
                         [](const auto& cell) {
                           std::string name =
                               std::get<0>(cell.param) + "_p" +
                               std::to_string(std::get<1>(cell.param)) + "_m" +
                               std::to_string(std::get<2>(cell.param)) +
                               (std::get<3>(cell.param) == Recompute::full ? "_recompute" : "");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Semantics, HoldForEveryOptimizerAndUntiedEmbeddings) {
  for (const OptimizerKind optimizer :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw}) {
    for (const bool tied : {true, false}) {
      for (const char* schedule : {"gpipe", "2bw"}) {
        TrainingCase test{.schedule = schedule, .devices = 3, .microbatches = 4};
        test.optimizer.kind = optimizer;
        test.model.tied = tied;
        expect_equal(by_executor<double>(test), by_reference<double>(test, test.semantics()));
      }
    }
  }
}

TEST(Semantics, HoldForExtraMicrobatchesInFlight) {
  TrainingCase test{
      .schedule = "2bw", .devices = 4, .microbatches = 7, .extra_in_flight = 3, .batches = 5};
  expect_equal(by_executor<float>(test, testing::seeded_delays(3, std::chrono::microseconds(300))),
               by_reference<float>(test, WeightSemantics::delayed_by_one));
}

TEST(Semantics, HoldForTwoStagesOnADevice) {
  TrainingCase test{.schedule = "probe-v", .devices = 2, .microbatches = 3};
  expect_equal(by_executor<float>(test), by_reference<float>(test, WeightSemantics::vanilla));
}

// The comparison can tell: vanilla and delayed trajectories differ by far more than rounding.
TEST(Semantics, OfVanillaAndDelayedDiffer) {
  TrainingCase test{.schedule = "2bw", .devices = 2, .microbatches = 4};
  const auto vanilla = by_reference<float>(test, WeightSemantics::vanilla);
  const auto delayed = by_reference<float>(test, WeightSemantics::delayed_by_one);
  const std::pair<std::int64_t, std::string> first{1, "block0.attention.qkv.weight"},
      last{4, first.second};
  EXPECT_EQ(vanilla.weights.at(first), delayed.weights.at(first)) << "the first update is the same";
  double worst = 0.0;
  for (std::size_t i = 0; i < vanilla.weights.at(last).size(); ++i) {
    worst = std::max<double>(worst,
                             std::abs(vanilla.weights.at(last)[i] - delayed.weights.at(last)[i]));
  }
  EXPECT_GT(worst, 1e-3);
}

}  // namespace
}  // namespace tandem
