// TeraPipe's planner: its paper's formula over brute force, and which layouts it is told.

#include "planner/published/terapipe.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/all_slicings.h"

namespace tandem {
namespace {

constexpr std::int32_t kTokens = 8;

/// A slice takes 9 whatever it has, 2 a token and sequence, and for each token before it as much as
/// attention reads.
SliceTime time_of(const TeraPipePlan& plan) {
  return [sequences = plan.microbatch_size](SequencePart part) {
    return Duration(9 + sequences * part.tokens * (2 + part.before / 2));
  };
}

TeraPipeQuestion eight_devices() {
  return {.global_batch = 16,
          .devices = 8,
          .blocks = 12,
          .tensors = {1, 2},
          .microbatch_sizes = {1, 2, 4},
          .slices = [](const TeraPipePlan& plan) {
            return fastest_slices(kTokens, 1, plan.depth, plan.microbatches, time_of(plan));
          }};
}

TEST(TeraPipePlanner, EachSizeHasTheSlicesOfTheShortestStepAndTheBestSizeIsFirst) {
  std::size_t sliced = 0;
  for (const TeraPipeLayout& layout : plan_terapipe(eight_devices())) {
    EXPECT_TRUE(std::ranges::is_sorted(layout, {},
                                       [](const TeraPipePlan& plan) { return plan.slices.value; }));
    for (const TeraPipePlan& plan : layout) {
      EXPECT_EQ(plan.microbatches * plan.microbatch_size * plan.width, 16);
      EXPECT_EQ(
          plan.slices.value.count(),
          testing::least_slicing_value(kTokens, 1, plan.depth, plan.microbatches, time_of(plan)));
      sliced += plan.slices.lengths.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(sliced, 0u);
}

TEST(TeraPipePlanner, DepthsDivideTheBlocksAndPipelinesShareTheBatch) {
  std::vector<std::vector<std::int32_t>> layouts;
  for (const TeraPipeLayout& layout : plan_terapipe(eight_devices())) {
    const TeraPipePlan& plan = layout.front();
    layouts.push_back({plan.tensor, plan.depth, plan.width});
    EXPECT_EQ(layout.size(), 3u) << "a plan for each size";
  }
  EXPECT_EQ(layouts,
            (std::vector<std::vector<std::int32_t>>{
                {1, 2, 4}, {1, 3, 2}, {1, 4, 2}, {1, 6, 1}, {2, 2, 2}, {2, 3, 1}, {2, 4, 1}}));
}

TEST(TeraPipePlanner, OneDeviceHasNoPipeline) {
  TeraPipeQuestion alone = eight_devices();
  alone.devices = 1;
  EXPECT_TRUE(plan_terapipe(alone).empty());
}

}  // namespace
}  // namespace tandem
