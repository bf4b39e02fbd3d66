// Ranges of GPT-2's layers, by kind: an embedding, blocks of two, a head.

#include "planner/search/alike_ranges.h"

#include <gtest/gtest.h>

#include "core/model/catalog.h"

namespace tandem {
namespace {

TEST(AlikeRanges, FindsTheFirstWithTheSameKindsInTheSameOrder) {
  const AlikeRanges ranges(model_of_name("gpt2"));
  EXPECT_EQ(ranges.layers(), 26);
  EXPECT_EQ(ranges.first_like({7, 11}), (LayerRange{1, 5}));
  EXPECT_EQ(ranges.first_like({8, 12}), (LayerRange{2, 6}));
  EXPECT_EQ(ranges.first_like({0, 3}), (LayerRange{0, 3}));
  EXPECT_EQ(ranges.first_like({24, 26}), (LayerRange{24, 26}));
}

TEST(AlikeRanges, RangesThatBeginOrEndAnotherWayAreNotAlike) {
  const AlikeRanges ranges(model_of_name("gpt2"));
  EXPECT_TRUE(ranges.alike({1, 5}, {19, 23}));
  EXPECT_FALSE(ranges.alike({1, 5}, {18, 22}));
  EXPECT_FALSE(ranges.alike({1, 5}, {19, 24}));
  EXPECT_FALSE(ranges.alike({0, 4}, {1, 5}));
  EXPECT_FALSE(ranges.alike({22, 26}, {21, 25}));
}

}  // namespace
}  // namespace tandem
