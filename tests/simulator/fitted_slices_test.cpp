// Times of slices that a profile did not measure.

#include "simulator/cost/fitted_slices.h"

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/all_slicings.h"

namespace tandem {
namespace {

/// A profile with slices whose forwards take 40 + 7l + 2k + l(2k + l), l tokens behind k.
Profile sliced_profile(const std::vector<SequencePart>& parts) {
  Profile profile;
  profile.model = {.blocks = 1, .width = 8, .heads = 2, .sequence = 64, .vocabulary = 16};
  for (const LayerKind kind :
       {LayerKind::embedding, LayerKind::attention, LayerKind::mlp, LayerKind::head})
    profile.layers.push_back({.kind = kind, .microbatch_size = 2, .update = Duration(7)});
  const auto take = [](std::vector<LayerCost>& rows, std::int64_t l, std::int64_t k) {
    for (LayerCost& row : rows) row.forward = Duration(40 + 7 * l + 2 * k + l * (2 * k + l));
  };
  for (const SequencePart part : parts) {
    profile.slices.push_back(
        {.tokens = part.tokens, .before = part.before, .layers = profile.layers});
    take(profile.slices.back().layers, part.tokens, part.before);
  }
  take(profile.layers, 64, 0);
  return profile;
}

TEST(FittedSlices, AreOfTheBilinearModelThatMadeTheTimes) {
  const Profile profile = sliced_profile(parts_of({16, 16, 16, 8, 8}));
  for (const SequencePart part : {SequencePart{24, 0}, {5, 59}, {1, 1}, {40, 24}}) {
    EXPECT_FALSE(is_measured(profile, part));
    const std::int64_t l = part.tokens, k = part.before;
    for (const LayerCost& row : layers_on_slice(profile, part))
      EXPECT_EQ(row.forward, Duration(40 + 7 * l + 2 * k + l * (2 * k + l)))
          << l << " behind " << k;
  }
}

TEST(FittedSlices, LeaveWhatWasMeasuredAsItIs) {
  Profile profile = sliced_profile(parts_of({16, 16, 16, 8, 8}));
  const Duration twice = 2 * profile.slices[1].layers[0].forward;  // on no curve
  profile.slices[1].layers[0].forward = twice;
  EXPECT_TRUE(is_measured(profile, {16, 16}));
  EXPECT_EQ(layers_on_slice(profile, {16, 16})[0].forward, twice);
  EXPECT_LT(layers_on_slice(profile, {16, 17})[0].forward, twice);
}

TEST(FittedSlices, NeverTakeLessForMoreTokens) {
  Profile profile = sliced_profile(parts_of({16, 16, 16, 16}));
  for (SliceCosts& slice : profile.slices) {  // the later, the faster
    for (LayerCost& row : slice.layers) row.forward = Duration(4000 - 40 * slice.before);
  }
  Duration last{};
  for (const std::int32_t tokens : {1, 2, 5, 20, 30, 60}) {
    const Duration time = layers_on_slice(profile, {tokens, 3})[0].forward;
    EXPECT_GE(time, last);
    last = time;
  }
}

TEST(FittedSlices, OfAProfileAreAddedUpToAWholeSequence) {
  const Profile profile = sliced_profile(parts_of({16, 16, 16, 8, 8}));
  const Profile sums = on_slices(profile, parts_of({32, 32}));
  const auto of = [](std::int64_t l, std::int64_t k) {
    return 40 + 7 * l + 2 * k + l * (2 * k + l);
  };
  ASSERT_EQ(sums.layers.size(), profile.layers.size());
  for (std::size_t i = 0; i < sums.layers.size(); ++i) {
    EXPECT_EQ(sums.layers[i].forward, Duration(of(32, 0) + of(32, 32)));
    EXPECT_EQ(sums.layers[i].update, profile.layers[i].update) << "once";
  }
}

// ---- What the programme compares ----

/// With transfers of 4 + b/64, b bytes: of a part's boundary of 64 bytes a token 4 + l.
Profile profile_with_transfers(const std::vector<SequencePart>& parts) {
  Profile profile = sliced_profile(parts);
  profile.transfers = {{.bytes = 0, .time = Duration(4)}, {.bytes = 6400, .time = Duration(104)}};
  return profile;
}

std::int64_t on_curve(std::int64_t l, std::int64_t k) {
  return 40 + 7 * l + 2 * k + l * (2 * k + l);
}

TEST(SliceTimes, AreThoseOfAStageAndOfTransfersBothWays) {
  Profile profile = profile_with_transfers(parts_of({16, 16, 16, 8, 8}));
  const auto add_backwards = [](std::vector<LayerCost>& rows) {
    for (LayerCost& row : rows) row.backward = 2 * row.forward;
  };
  add_backwards(profile.layers);
  for (SliceCosts& slice : profile.slices) add_backwards(slice.layers);
  for (const SequencePart part : {SequencePart{24, 0}, {16, 16}, {5, 59}, {64, 0}}) {
    const std::int64_t l = part.tokens, layers = 4 * 3 * on_curve(l, part.before);
    EXPECT_EQ(measured_slice_time(profile, 2, 1)(part).count(), layers)
        << l << " without transfers";
    EXPECT_EQ(measured_slice_time(profile, 2, 4)(part).count(), layers / 4 + 2 * (4 + l)) << l;
  }
  // As measured, on no curve: of a slice and of the whole sequence.
  for (std::vector<LayerCost>* rows : {&profile.slices[1].layers, &profile.layers}) {
    for (LayerCost& row : *rows) row.forward *= 2;
  }
  const SliceTime time = measured_slice_time(profile, 2, 1);
  EXPECT_EQ(time({16, 16}).count(), 4 * 4 * on_curve(16, 16));
  EXPECT_EQ(time({64, 0}).count(), 4 * 4 * on_curve(64, 0));
  EXPECT_EQ(time({16, 0}).count(), 4 * 3 * on_curve(16, 0));

  profile.transfers.clear();
  EXPECT_THROW(measured_slice_time(profile, 2, 2)({16, 0}), InputError);
  profile.slices.clear();
  EXPECT_THROW(measured_slice_time(profile, 2, 1), InputError);
}

// Controls: programmes that know the curve alone, or no transfers, find slices that take longer.
TEST(SliceTimes, LeadTheProgrammeToWhatBruteForceFinds) {
  Profile profile = profile_with_transfers(parts_of({32, 32}));
  for (SliceCosts& slice : profile.slices) {
    for (LayerCost& row : slice.layers) row.forward = row.forward / 2;
  }
  int worse_on_curve = 0, worse_without_transfers = 0;
  for (const std::int64_t stages : {1, 2, 4, 8, 48}) {
    for (const std::int64_t microbatches : {1, 4}) {
      const SliceTime time = measured_slice_time(profile, 2, stages);
      const std::int64_t least = testing::least_slicing_value(64, 8, stages, microbatches, time);
      const auto value = [&](const std::vector<std::int32_t>& lengths) {
        return testing::slicing_value(lengths, stages, microbatches, time);
      };
      const auto found_by = [&](const SliceTime& other) {
        return value(fastest_slices(64, 8, stages, microbatches, other).lengths);
      };
      EXPECT_EQ(value(slicing_by_time(profile, 2, stages, microbatches).lengths), least);
      const auto transfers = [=](SequencePart part) {
        return Duration(stages == 1 ? 0 : 2 * (4 + part.tokens));
      };
      worse_on_curve +=
          found_by([&](SequencePart part) {
            return Duration(4 * on_curve(part.tokens, part.before) / stages) + transfers(part);
          }) > least;
      worse_without_transfers +=
          found_by([&](SequencePart part) { return time(part) - transfers(part); }) > least;
    }
  }
  EXPECT_GT(worse_on_curve, 0);
  EXPECT_GT(worse_without_transfers, 0);
}

TEST(FittedSlices, OfTheProgrammeAreMoreTheDeeperThePipelineIs) {
  const Profile profile = profile_with_transfers(parts_of({16, 16, 16, 8, 8}));
  const Slicing alone = slicing_by_time(profile, 2, 1, 4),
                deep = slicing_by_time(profile, 2, 16, 1);
  EXPECT_EQ(alone.count, 1);
  EXPECT_GT(deep.count, 2);
  EXPECT_GE(deep.lengths.front(), deep.lengths.back());
}

}  // namespace
}  // namespace tandem
