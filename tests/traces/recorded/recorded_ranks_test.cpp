// Ranks of one stage as one device.

#include "traces/recorded/recorded_ranks.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/recordings.h"

namespace tandem::testing {
namespace {

RecordedOp recorded_op(OpKind kind, std::int64_t microbatch, int start, int end) {
  return {.kind = kind, .microbatch = microbatch, .start = ms(start), .end = ms(end)};
}

TEST(RecordedRanks, OneIsItself) {
  const std::vector<RecordedOp> own{recorded_op(OpKind::forward, 0, 0, 10),
                                    recorded_op(OpKind::backward, 0, 12, 30)};
  const JoinedRanks joined = join_ranks({own});
  ASSERT_EQ(joined.ops.size(), 2u);
  EXPECT_EQ(joined.ops[1].start, ms(12));
  EXPECT_EQ(joined.left_out, 0u);
}

TEST(RecordedRanks, TheLastToBeginAndTheLastToEndCount) {
  const JoinedRanks joined = join_ranks(
      {{recorded_op(OpKind::forward, 0, 0, 10), recorded_op(OpKind::forward, 1, 10, 25)},
       {recorded_op(OpKind::forward, 0, 3, 9), recorded_op(OpKind::forward, 1, 11, 22)}});
  ASSERT_EQ(joined.ops.size(), 2u);
  EXPECT_EQ(joined.ops[0].start, ms(3));
  EXPECT_EQ(joined.ops[0].end, ms(10));
  EXPECT_EQ(joined.ops[1].start, ms(11));
  EXPECT_EQ(joined.ops[1].end, ms(25));
}

/// By their numbers, and where there are none by their order.
TEST(RecordedRanks, OpsCorrespond) {
  const JoinedRanks numbered =
      join_ranks({{recorded_op(OpKind::forward, 0, 0, 10), recorded_op(OpKind::forward, 1, 10, 20)},
                  {recorded_op(OpKind::forward, 1, 0, 5), recorded_op(OpKind::forward, 0, 5, 30)}});
  EXPECT_EQ(numbered.ops.front().microbatch, 1);
  EXPECT_EQ(numbered.ops.front().start, ms(10));
  EXPECT_EQ(numbered.ops.back().end, ms(30));
  const JoinedRanks ordered = join_ranks(
      {{recorded_op(OpKind::forward, -1, 0, 10), recorded_op(OpKind::forward, -1, 10, 20)},
       {recorded_op(OpKind::forward, -1, 0, 5), recorded_op(OpKind::forward, -1, 5, 30)}});
  EXPECT_EQ(ordered.ops.front().end, ms(10));
  EXPECT_EQ(ordered.ops.back().start, ms(10));
}

TEST(RecordedRanks, WhatDidOtherThingsIsLeftOut) {
  const std::vector<RecordedOp> two{recorded_op(OpKind::forward, 0, 0, 10),
                                    recorded_op(OpKind::forward, 1, 10, 20)};
  for (const std::vector<RecordedOp>& other :
       {std::vector{recorded_op(OpKind::forward, 0, 0, 99)},
        std::vector{recorded_op(OpKind::forward, 0, 0, 10),
                    recorded_op(OpKind::forward, 2, 10, 99)},
        std::vector{recorded_op(OpKind::forward, 0, 0, 10),
                    recorded_op(OpKind::backward, 1, 10, 99)}}) {
    const JoinedRanks joined = join_ranks({two, other});
    EXPECT_EQ(joined.left_out, 1u);
    EXPECT_EQ(joined.ops.back().end, ms(20));
  }
}

}  // namespace
}  // namespace tandem::testing
