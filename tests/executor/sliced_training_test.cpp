// Training of sequences in slices: the executor against the serial reference, which goes through
// slices alike, bit for bit; and against whole sequences where no rounding tells them apart.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/verify/verify.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

using testing::by_executor;
using testing::by_reference;
using testing::TrainingCase;
using Lengths = std::vector<std::int32_t>;

const std::vector<std::string>& rows() {
  static const std::vector<std::string> kRows{"terapipe", "seq1f1b", "seq1f1b-zb", "seq1f1b-i"};
  return kRows;
}

/// Three microbatches of samples of six tokens.
TrainingCase sliced_case(const std::string& schedule, std::uint16_t devices, Lengths lengths) {
  TrainingCase test = TrainingCase::on(schedule, devices);
  test.microbatches = 3;
  test.batches = 3;
  test.slices = std::move(lengths);
  return test;
}

auto delays(std::uint64_t seed) {
  return testing::seeded_delays(seed, std::chrono::microseconds(300));
}

class SlicedTraining : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(EveryRow, SlicedTraining, ::testing::ValuesIn(rows()),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(SlicedTraining, EqualsTheReferenceAndThePlannedMemory) {
  std::int32_t trained = 0;
  for (const Lengths& lengths :
       {Lengths{3, 3}, Lengths{1, 3, 2}, Lengths{4, 2}, Lengths{2, 2, 1, 1}}) {
    for (const int devices : testing::kSanitized ? std::vector{3} : std::vector{1, 2, 3, 4}) {
      TrainingCase test = sliced_case(GetParam(), static_cast<std::uint16_t>(devices), lengths);
      if (!test.is_served()) continue;
      ++trained;
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
        test.recompute = recompute;
        SCOPED_TRACE(
            fmt::format("p {} slices {} {}", devices, fmt::join(lengths, ","), name(recompute)));
        const Program program = lower(test.make());
        const SlotCounts slots = count_slots(program);
        expect_equal(by_executor<float>(test, program, slots, delays(1)),
                     by_reference<float>(test, WeightSemantics::vanilla));
        const Data data = testing::data_of(test);
        const auto setup = testing::setup_of<float>(test, program, data);
        const auto planned = testing::planned_memory(test, program, slots);
        const TrainingReport<float> report = train_on_cpu<float>(program, setup);
        for (const DeviceId device : ids(planned))
          EXPECT_EQ(report.high_water[device], planned[device]) << "device " << index(device);
      }
    }
  }
  EXPECT_GT(trained, 0);
}

TEST_P(SlicedTraining, EqualsTheReferenceAtAnyWidthAndWithClipping) {
  for (const std::uint16_t width : {std::uint16_t{2}, std::uint16_t{3}}) {
    TrainingCase test = sliced_case(GetParam(), 2, {4, 2});
    test.width = width;
    test.microbatch_size = 2;
    test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
    expect_equal(by_executor<float>(test, delays(width)),
                 by_reference<float>(test, WeightSemantics::vanilla));
  }
}

// Sums of dyadic numbers are exact in any order, and a mean over 8 tokens of 4 microbatches is one.
TEST_P(SlicedTraining, OfALinearModelHasTheBitsOfWholeSequences) {
  // Numbers of three layers fit the mantissa for one update.
  const bool chunked = GetParam() == "seq1f1b-i";
  TrainingCase whole{
      .schedule = "1f1b", .devices = 2, .microbatches = 4, .batches = chunked ? 1 : 2};
  whole.model = {.name = "linear",
                 .architecture = Architecture::linear,
                 .blocks = chunked ? 3 : 2,
                 .width = 2,
                 .heads = 1,
                 .sequence = 8,
                 .vocabulary = 256,
                 .tied = false};
  whole.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.0625};
  const auto expected = by_executor<double>(whole);
  for (const Lengths& lengths : {Lengths{4, 4}, Lengths{7, 1}}) {
    TrainingCase test = whole;
    test.schedule = GetParam();
    test.chunks = TrainingCase::on(GetParam(), 2).chunks;
    test.slices = lengths;
    EXPECT_EQ(by_executor<double>(test, delays(4)).weights, expected.weights);
  }
}

TEST(SlicedTraining, InOneSliceHasTheBitsOfWholeSequences) {
  TrainingCase whole{.schedule = "1f1b", .devices = 3, .microbatches = 5};
  const auto expected = by_executor<float>(whole);
  for (const Lengths& lengths : {Lengths{}, Lengths{6}}) {
    whole.schedule = "seq1f1b";
    whole.slices = lengths;
    expect_equal(by_executor<float>(whole), expected);
  }
}

// Negative control of all equalities: other slices add in another order, and rounding tells.
TEST(SlicedTraining, OfOtherSlicesHasOtherBits) {
  const TrainingCase test = sliced_case("seq1f1b", 2, {3, 3});
  const auto right = by_reference<float>(test, WeightSemantics::vanilla);
  TrainingCase other = test;
  other.slices = {4, 2};
  EXPECT_NE(by_reference<float>(other, WeightSemantics::vanilla).weights, right.weights);
  other.slices = {};
  EXPECT_NE(by_reference<float>(other, WeightSemantics::vanilla).weights, right.weights);
}

// Where a slice goes backward before the one behind it, what that would add is not there yet.
TEST(SlicedTraining, OfSlicesThatGoBackwardInOrderFails) {
  const TrainingCase test = sliced_case("terapipe", 1, {3, 3});
  const Program good = lower(test.make());
  ProgramParts parts = good.parts();
  for (Instruction& instruction : parts.instructions) {
    if (makes_input_gradient(instruction.op.kind)) instruction.op.microbatch ^= 1;
  }
  EXPECT_THROW(by_executor<float>(test, Program(std::move(parts)), count_slots(good)), DeviceError);
}

// Each slot of what later slices read is needed.
TEST_P(SlicedTraining, WithOneContextLessFails) {
  TrainingCase test = sliced_case(GetParam(), 2, {4, 2});
  test.recompute = Recompute::stage;
  const Program program = lower(test.make());
  const SlotCounts slots = count_slots(program);
  for (const ReplicaId replica : ids(slots)) {
    ASSERT_GT(slots[replica][SlotKind::context], 1);
    SlotCounts fewer = slots;
    --fewer[replica][SlotKind::context];
    EXPECT_FALSE(verify(program, fewer).empty()) << index(replica);
    EXPECT_THROW(by_executor<float>(test, program, fewer), DeviceError) << index(replica);
  }
}

// What is made again holds less: at most one stash of a stage, and of each slice keys and values.
TEST_P(SlicedTraining, TakesLessWhereStagesAreMadeAgain) {
  TrainingCase test = sliced_case(GetParam(), 2, {4, 2});
  test.model.blocks = 8;
  const auto peak = [&](Recompute recompute) {
    test.recompute = recompute;
    const Program program = lower(test.make());
    return testing::planned_memory(test, program, count_slots(program))[DeviceId{0}].activations;
  };
  const Bytes none = peak(Recompute::none), full = peak(Recompute::full);
  EXPECT_LT(peak(Recompute::stage), none);
  EXPECT_LT(full, none);
}

TEST_P(SlicedTraining, RollsBackWhatWillBeMadeAgain) {
  TrainingCase test = sliced_case(GetParam(), 2, {4, 2});
  test.recompute = Recompute::stage;
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  const auto waited = by_reference<float>(test, WeightSemantics::vanilla);
  expect_equal(by_executor<float>(test, delays(6)), waited);
  test.post_validation = true;
  if (test.is_served()) expect_equal(by_executor<float>(test, delays(7)), waited);
}

}  // namespace
}  // namespace tandem
