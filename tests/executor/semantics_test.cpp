// The executor against the serial reference, bit for bit: every weight, the optimizer state and
// every loss, after every update, for every trainable schedule, under seeded random delays.

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/schedule/options.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

using testing::TrainingCase;

using testing::by_executor;
using testing::by_reference;
using testing::Trace;

/// The weights at a pause are those of the version that the last batch made.
void expect_weights(const Trace<float>& reference, std::int64_t version,
                    std::span<const StageWeights<float>> stages, const TrainingCase& test) {
  std::size_t compared = 0;
  for (const StageWeights<float>& stage : stages) {
    const Stage<cpu::Kernels<float>> layout(test.model, stage.layers, test.microbatch_size, 1.0);
    for (const Tensor& tensor : layout.parameters()) {
      const auto first = stage.values.begin() + tensor.offset;
      EXPECT_EQ(std::vector<float>(first, first + tensor.size()),
                reference.weights.at({version, tensor.name}))
          << tensor.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared * static_cast<std::size_t>(test.batches), reference.weights.size());
}

void expect_semantics(const TrainingCase& test) {
  SCOPED_TRACE(fmt::format("m {}, recompute {}", test.microbatches, name(test.recompute)));
  if (!test.is_served()) {
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

using Cell = std::tuple<std::string, int>;

class Semantics : public ::testing::TestWithParam<Cell> {};

TEST_P(Semantics, OfTheExecutorEqualTheReferenceBitForBit) {
  const auto [schedule, devices] = GetParam();
  TrainingCase test = TrainingCase::on(schedule, static_cast<std::uint16_t>(devices));
  // One, as many as devices, and more.
  const std::vector<std::int32_t> counts =
      testing::kSanitized ? std::vector{1, 5} : std::vector{1, 2, 3, 5, 8};
  for (const std::int32_t microbatches : counts) {
    for (const Recompute recompute :
         {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
      test.microbatches = microbatches;
      test.recompute = recompute;
      expect_semantics(test);
    }
  }
}

std::vector<int> depths() { return testing::kSanitized ? std::vector{3} : std::vector{1, 2, 3, 4}; }

INSTANTIATE_TEST_SUITE_P(EverySchedule, Semantics,
                         ::testing::Combine(::testing::ValuesIn(testing::schedule_names()),
                                            ::testing::ValuesIn(depths())),
                         [](const auto& cell) {
                           std::string name = std::get<0>(cell.param) + "_p" +
                                              std::to_string(std::get<1>(cell.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Semantics, HoldForEveryOptimizerAndUntiedEmbeddings) {
  for (const OptimizerKind optimizer :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw, OptimizerKind::nadam,
        OptimizerKind::muon}) {
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

// Matrices of Muon's are stepped whole, in scratch that passes use, too.
TEST(Semantics, HoldForMuonOnEverySchedule) {
  for (const std::string& schedule : testing::schedule_names()) {
    TrainingCase test = TrainingCase::on(schedule, 3);
    if (!test.take_microbatches(6)) continue;
    test.optimizer.kind = OptimizerKind::muon;
    test.optimizer.muon_learning_rate = 3e-2;
    test.optimizer.muon_scale = MuonScale::original;
    SCOPED_TRACE(schedule);
    expect_semantics(test);
  }
}

// Whole states are compared: the step before is one of them.
TEST(Semantics, HoldWhereDelayIsCorrected) {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw, OptimizerKind::nadam,
        OptimizerKind::muon}) {
    for (const DelayCorrection correction :
         {DelayCorrection::error_feedback, DelayCorrection::error_feedback_with_decay}) {
      for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
        TrainingCase test{.schedule = "2bw", .devices = 3, .width = width};
        test.optimizer.kind = kind;
        test.optimizer.correction = correction;
        test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
        SCOPED_TRACE(fmt::format("{} width {}", describe(test.optimizer.optimizer()), width));
        const auto reference = by_reference<float>(test, test.semantics());
        expect_equal(
            by_executor<float>(test, testing::seeded_delays(6, std::chrono::microseconds(300))),
            reference);
        test.optimizer.correction = DelayCorrection::none;
        EXPECT_NE(by_reference<float>(test, test.semantics()).weights, reference.weights);
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

/// Whether the schedule has ops that make a weight gradient alone, as it is asked for by itself.
bool splits_backwards(const ScheduleTraits& row) {
  TrainingCase test = TrainingCase::on(std::string(row.name), 4);
  if (!test.take_microbatches(4)) return false;
  const Schedule schedule = test.make();
  return std::ranges::any_of(schedule.order, [](const std::vector<Op>& order) {
    return std::ranges::any_of(order, [](const Op& op) {
      return makes_weight_gradient(op.kind) && !makes_input_gradient(op.kind);
    });
  });
}

// Seeded sizes, costs and caps.
TEST(Semantics, HoldForSplitBackwardsOnManyDevices) {
  std::mt19937 random(20);
  const auto below = [&random](std::uint32_t bound) { return static_cast<int>(random() % bound); };
  for (const ScheduleTraits& row : schedules()) {
    if (!splits_backwards(row)) continue;
    const std::string name(row.name);
    for (const std::uint16_t devices : {std::uint16_t{5}, std::uint16_t{6}}) {
      TrainingCase test = TrainingCase::on(name, devices);
      test.width = static_cast<std::uint16_t>(1 + below(2));
      test.batches = 3;
      if (row.orders_by_costs) {
        test.costs = testing::uneven_costs(stage_count(row, {.devices = devices, .replicas = {}}));
      }
      if (option_of(row, &ScheduleRequest::activation_caps) != nullptr)
        test.activation_cap = 1.0 * devices - below(2);
      if (!test.take_microbatches(1 + below(12))) continue;
      SCOPED_TRACE(fmt::format("{} p {} m {}", name, devices, test.microbatches));
      expect_equal(
          by_executor<float>(test, testing::seeded_delays(8, std::chrono::microseconds(300))),
          by_reference<float>(test, WeightSemantics::vanilla));
    }
  }
}

// Stashes that leave for another device's memory and come back are the same to the bit.
TEST(Semantics, HoldForStashesThatMove) {
  std::mt19937 random(31);
  for (const int devices : {2, 4, 6}) {
    for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
        if (recompute == Recompute::stage && width == 2) continue;
        TrainingCase test{.schedule = "bpipe", .devices = static_cast<std::uint16_t>(devices)};
        test.microbatches = devices - 1 + static_cast<std::int32_t>(random() % 8);
        test.width = width;
        test.batches = 2;
        test.recompute = recompute;
        SCOPED_TRACE(fmt::format("p {} m {} width {} {}", devices, test.microbatches, width,
                                 name(recompute)));
        const Program program = lower(test.make());
        const bool moves = std::ranges::any_of(
            program.instructions(), [](const auto& each) { return each.op.kind == OpKind::evict; });
        EXPECT_EQ(moves, test.microbatches > devices / 2 + 1 && devices > 2 &&
                             recompute != Recompute::stage);
        expect_equal(by_executor<float>(test, program, count_slots(program),
                                        testing::seeded_delays(9, std::chrono::microseconds(100))),
                     by_reference<float>(test, WeightSemantics::vanilla));
      }
    }
  }
}

// Over a link of 20 MB/s a stash of 40 KiB or so takes 2 ms each way.
TEST(Semantics, HoldForStashesOnASlowLink) {
  TrainingCase test{.schedule = "bpipe", .devices = 4, .microbatches = 6, .batches = 2};
  const Program program = lower(test.make());
  expect_equal(by_executor<float>(test, program, count_slots(program), {},
                                  [](TrainingSetup<float>& setup) { setup.link_rate = 20e6; }),
               by_reference<float>(test, WeightSemantics::vanilla));
}

TEST(Semantics, HoldForTwoStagesOnADevice) {
  for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{3}}) {
    for (const Recompute recompute : {Recompute::none, Recompute::stage}) {
      TrainingCase test{
          .schedule = "1f1b-v", .devices = devices, .microbatches = 3, .recompute = recompute};
      expect_equal(
          by_executor<float>(test, testing::seeded_delays(4, std::chrono::microseconds(300))),
          by_reference<float>(test, WeightSemantics::vanilla));
    }
  }
}

TEST(Semantics, HoldForPipelinesOfAnyWidth) {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "1f1b-v"}) {
    for (const std::uint16_t width : {std::uint16_t{2}, std::uint16_t{3}}) {
      for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}}) {
        const TrainingCase test{
            .schedule = schedule, .devices = devices, .microbatches = 3, .width = width};
        const auto reference = by_reference<float>(test, test.semantics());
        expect_equal(by_executor<float>(test), reference);
        expect_equal(
            by_executor<float>(test, testing::seeded_delays(5, std::chrono::microseconds(300))),
            reference);
      }
    }
  }
}

TEST(Semantics, HoldForStashedWeightsAndReplicatedStages) {
  struct Shape {
    std::vector<std::uint16_t> replicas;
    std::int32_t microbatches;
  };
  for (const Shape& shape : {Shape{{1}, 3}, Shape{{1, 1}, 4}, Shape{{1, 1, 1}, 5},
                             Shape{{2, 1, 1}, 4}, Shape{{3, 1}, 6}, Shape{{1, 2}, 4}}) {
    for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
      TrainingCase test{.schedule = "pipedream"};
      test.microbatches = shape.microbatches;
      test.width = width;
      test.replicas = shape.replicas;
      test.devices = 0;
      for (const std::uint16_t replicas : shape.replicas) test.devices += replicas;
      test.model.tied = false;
      const auto reference = by_reference<float>(test, WeightSemantics::stashed);
      expect_equal(
          by_executor<float>(test, testing::seeded_delays(6, std::chrono::microseconds(300))),
          reference);
    }
  }
}

TEST(Semantics, HoldForEveryScheduleAtEveryWidthUnderDelays) {
  for (const std::string& schedule : testing::schedule_names()) {
    for (const std::uint16_t width : {std::uint16_t{2}, std::uint16_t{3}}) {
      if (testing::kSanitized && width != 2) continue;
      TrainingCase test = TrainingCase::on(
          schedule, schedule == "data-parallel" ? std::uint16_t{1} : std::uint16_t{2});
      test.width = width;
      test.take_microbatches(3);
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
        test.recompute = recompute;
        if (!test.is_served()) continue;
        expect_equal(
            by_executor<float>(test, testing::seeded_delays(width, std::chrono::microseconds(200))),
            by_reference<float>(test, test.semantics()));
      }
    }
  }
}

// Both directions of a pipeline, and those of each pipeline of the width, sum apart.
TEST(Semantics, HoldForMicrobatchesThatComeBothWays) {
  std::mt19937 random(11);
  for (const char* schedule : {"chimera", "dualpipe", "dualpipev", "hanayo"}) {
    for (std::uint16_t devices = 2; devices <= 6; ++devices) {
      TrainingCase test = TrainingCase::on(schedule, devices);
      test.model.blocks = devices;  // layers for two stages a device
      test.batches = 2;
      if (find_schedule(schedule).replicas_per_stage == 2 && devices % 2 != 0) {
        EXPECT_FALSE(test.is_served());
        continue;
      }
      for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
        test.width = width;
        test.take_microbatches(static_cast<std::int32_t>(1 + random() % 14));
        SCOPED_TRACE(
            fmt::format("{} p {} m {} width {}", schedule, devices, test.microbatches, width));
        expect_equal(
            by_executor<float>(test, testing::seeded_delays(8, std::chrono::microseconds(200))),
            by_reference<float>(test, WeightSemantics::vanilla));
      }
    }
  }
}

TEST(Semantics, HoldForManyDirectionsTiedEmbeddingsAndClipping) {
  for (const bool tied : {true, false}) {
    for (const auto& [devices, directions] : {std::pair{4, 2}, {4, 4}, {6, 6}}) {
      TrainingCase test = TrainingCase::on("chimera", static_cast<std::uint16_t>(devices));
      test.directions = static_cast<std::uint16_t>(directions);
      test.take_microbatches(2 * devices);
      test.model.tied = tied;
      test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      expect_equal(
          by_executor<float>(test, testing::seeded_delays(9, std::chrono::microseconds(200))),
          by_reference<float>(test, WeightSemantics::vanilla));
    }
  }
}

// Had the reference one sum for both directions, rounding would tell.
TEST(Semantics, OfBothDirectionsAreSumsOfTwo) {
  const TrainingCase test = TrainingCase::on("chimera", 2);
  const auto right = by_reference<float>(test, WeightSemantics::vanilla);
  const Data data = testing::data_of(test);
  ReferenceConfig config = testing::reference_config(test, WeightSemantics::vanilla);
  for (ReferenceStage& stage : config.stages) {
    ASSERT_EQ(stage.replicas, 2);
    stage.replicas = 1;
    stage.replica.clear();
  }
  Reference<cpu::Kernels<float>> wrong(test.model, config, data);
  const std::string table = "embedding.token.weight";
  EXPECT_NE(wrong.step().optimizer.at(table), right.optimizer.at({1, table}));
}

TEST(Semantics, HoldForUnevenGroupsOfInterleaving) {
  for (const std::int32_t m : {3, 5, 7}) {
    TrainingCase test = TrainingCase::on("interleaved", 3);
    test.microbatches = m;
    expect_equal(by_executor<float>(test), by_reference<float>(test, test.semantics()));
  }
}

TEST(Semantics, HoldForVerticalSyncAndFifteenReplicas) {
  TrainingCase synced{.schedule = "pipedream", .devices = 3, .vertical_sync = true};
  expect_equal(by_executor<float>(synced), by_reference<float>(synced, WeightSemantics::stashed));
  TrainingCase wide{.schedule = "pipedream", .devices = 16, .microbatches = 15};
  wide.replicas = {15, 1};
  wide.model.tied = false;
  wide.batches = 3;
  expect_equal(by_executor<float>(wide), by_reference<float>(wide, WeightSemantics::stashed));
}

// A stage that read the version of another microbatch would not pass.
TEST(Semantics, OfStashedWeightsDependOnEveryStalenessAndReplica) {
  TrainingCase test{.schedule = "pipedream"};
  test.devices = 3;
  test.replicas = {2, 1};
  test.model.tied = false;
  const auto right = by_reference<float>(test, WeightSemantics::stashed);
  const Data data = testing::data_of(test);
  for (const bool fresher : {true, false}) {
    ReferenceConfig config = testing::reference_config(test, WeightSemantics::stashed);
    ReferenceStage& first = config.stages[0];
    ASSERT_EQ(first.replicas, 2);
    for (std::int32_t& staleness : first.staleness) {
      ASSERT_GT(staleness, 0);
      if (fresher) --staleness;
    }
    if (!fresher) {
      first.microbatches = first.replicas = 1;
      first.replica.clear();
    }
    Reference<cpu::Kernels<float>> wrong(test.model, config, data);
    wrong.step();
    const auto& tables = wrong.step().weights;
    EXPECT_NE(tables.at("embedding.token.weight"), right.weights.at({4, "embedding.token.weight"}));
  }
}

// A backward that read its forward's weights, or a forward the newest of its batch, would not pass.
TEST(Semantics, OfLatestWeightsDependOnWhatEachOpReads) {
  TrainingCase test = TrainingCase::on("paci", 4);
  test.microbatches = 2;
  const auto right = by_reference<float>(test, WeightSemantics::latest);
  const ReferenceConfig config = testing::reference_config(test, WeightSemantics::latest);
  ReferenceConfig kept = config, fresh = config;
  for (ReferenceStage& stage : kept.stages) stage.backward_staleness = stage.staleness;
  for (ReferenceStage& stage : fresh.stages) stage.staleness = stage.backward_staleness;
  EXPECT_NE(testing::reference_trace<float>(test, kept).weights, right.weights);
  EXPECT_NE(testing::reference_trace<float>(test, fresh).weights, right.weights);
}

// A forward that read its own stage's newest, or a backward its forward's, would not pass.
TEST(Semantics, OfVerticallyReadWeightsDependOnWhatEachOpReads) {
  TrainingCase test = TrainingCase::on("timeprest", 3);
  test.microbatches = 2;
  const auto right = by_reference<float>(test, WeightSemantics::latest);
  const ReferenceConfig config = testing::reference_config(test, WeightSemantics::latest);
  ReferenceConfig kept = config, fresh = config;
  for (ReferenceStage& stage : kept.stages) stage.backward_staleness = stage.staleness;
  for (std::int32_t& staleness : fresh.stages.back().staleness) staleness = 0;
  EXPECT_NE(testing::reference_trace<float>(test, kept).weights, right.weights);
  EXPECT_NE(testing::reference_trace<float>(test, fresh).weights, right.weights);
  test.single_backwards = true;
  expect_equal(by_executor<float>(test), right);
}

/// PipeMare on four stages, with delays above one.
TrainingCase corrected_case() {
  TrainingCase test = TrainingCase::on("pipemare", 4);
  test.microbatches = 1;
  test.batches = 6;
  return test;
}

TEST(Semantics, OfCorrectedWeightsDependOnDelayAndDecay) {
  const TrainingCase test = corrected_case();
  const auto right = by_reference<float>(test, WeightSemantics::latest);
  TrainingCase published = test, slower = test, none = test;
  published.published_delays = true;
  slower.correction_decay = 0.5;
  none.correction_decay = 1.0;
  for (const TrainingCase* other : {&published, &slower, &none})
    EXPECT_NE(by_reference<float>(*other, WeightSemantics::latest).weights, right.weights);
  expect_equal(by_executor<float>(published),
               by_reference<float>(published, WeightSemantics::latest));
  // Nothing of a change is taken into the correction: the weights are those of paci.
  TrainingCase paci = test;
  paci.schedule = "paci";
  EXPECT_EQ(by_executor<float>(none).weights, by_executor<float>(paci).weights);
  // One stage has no delay.
  TrainingCase alone = TrainingCase::on("pipemare", 1), flushed = TrainingCase::on("1f1b", 1);
  flushed.model.tied = alone.model.tied;
  EXPECT_EQ(by_executor<float>(alone).weights, by_executor<float>(flushed).weights);
}

TEST(Semantics, HoldForRatesThatAreDividedByDelays) {
  TrainingCase test = corrected_case();
  test.optimizer.kind = OptimizerKind::momentum;
  const auto whole = by_reference<float>(test, WeightSemantics::latest);
  test.optimizer.schedule.annealing = 4;
  const auto divided = by_reference<float>(test, WeightSemantics::latest);
  expect_equal(by_executor<float>(test, testing::seeded_delays(3, std::chrono::microseconds(300))),
               divided);
  EXPECT_NE(divided.weights, whole.weights);
}

// Stopping to look changes nothing: the versions in flight are kept.
TEST(Semantics, HoldThroughPauses) {
  for (const auto& [schedule, microbatches] : {std::pair{"1f1b", 4},
                                               {"2bw", 4},
                                               {"paci", 1},
                                               {"paci", 2},
                                               {"pipemare", 1},
                                               {"spectrain", 1},
                                               {"spectrain-v2", 1},
                                               {"pipeoptim", 2},
                                               {"xpipe", 2},
                                               {"timeprest", 2},
                                               {"timeprest-i", 2}}) {
    TrainingCase test = TrainingCase::on(schedule, 3);
    test.microbatches = microbatches;
    test.batches = 5;
    const auto reference = by_reference<float>(test, test.semantics());
    const Program program = lower(test.make());
    std::vector<std::int64_t> pauses;
    expect_equal(by_executor<float>(test, program, count_slots(program), {},
                                    [&](TrainingSetup<float>& setup) {
                                      setup.pause_every = 2;
                                      setup.on_pause = [&](std::int64_t batches, auto stages) {
                                        pauses.push_back(batches);
                                        expect_weights(reference, batches, stages, test);
                                      };
                                    }),
                 reference);
    EXPECT_EQ(pauses, (std::vector<std::int64_t>{2, 4}));
  }
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
