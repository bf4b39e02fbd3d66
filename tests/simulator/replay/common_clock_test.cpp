// Clocks of ranks compared by transfers made by hand.

#include "simulator/replay/common_clock.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/recordings.h"

namespace tandem::testing {
namespace {

using SeenByDevice = std::vector<std::vector<SeenOp>>;

SeenOp compute(int start, int end) { return {.start = ms(start), .end = ms(end)}; }
SeenOp sent(std::uint32_t id, int start, int end) {
  return {.instruction = id, .transfer = true, .start = ms(start), .end = ms(end)};
}
SeenOp received(std::uint32_t id, int start, int end) {
  return {
      .instruction = id, .transfer = true, .receives = true, .start = ms(start), .end = ms(end)};
}

void expect_times(const SeenOp& op, int start, int end) {
  EXPECT_EQ(op.start, ms(start));
  EXPECT_EQ(op.end, ms(end));
}

TEST(CommonClock, OfOneClockNothingChanges) {
  SeenByDevice seen{{compute(0, 10), sent(1, 10, 12)}, {received(1, 10, 12), compute(12, 20)}};
  align_clocks(seen, 2, true);
  expect_times(seen[0][0], 0, 10);
  expect_times(seen[0][1], 10, 12);
  expect_times(seen[1][0], 10, 12);
  expect_times(seen[1][1], 12, 20);
}

/// The second rank's clock is 100 ahead; it came first, and its own start is the one that is later
/// by two clocks.
TEST(CommonClock, TheRankThatCameLaterIsToldByWhatItDidBefore) {
  for (const int begins : {10, 105}) {  // by the sender's clock; by the receiver's
    SeenByDevice seen{{compute(0, 10), sent(1, begins, 12), compute(12, 30)},
                      {compute(100, 105), received(1, begins, 112), compute(112, 120)}};
    align_clocks(seen, 2, true);
    expect_times(seen[0][1], 10, 12);
    expect_times(seen[1][1], 10, 12);
    expect_times(seen[1][0], 0, 5);
    expect_times(seen[1][2], 12, 20);
  }
}

TEST(CommonClock, EndsThatBeginApartBeginWithTheLater) {
  SeenByDevice seen{{compute(0, 5), sent(1, 5, 12)}, {compute(100, 109), received(1, 109, 112)}};
  align_clocks(seen, 2, true);
  expect_times(seen[0][1], 9, 12);
  expect_times(seen[1][1], 9, 12);
}

/// What is computed beside transfers says nothing of when they began.
TEST(CommonClock, OfTransfersBesideComputationTheShorterCounts) {
  SeenByDevice seen{{sent(1, 10, 14), compute(0, 30)}, {compute(0, 9), received(1, 10, 12)}};
  align_clocks(seen, 2, false);
  EXPECT_EQ(seen[1][1].end - seen[1][1].start, ms(2));
  EXPECT_EQ(seen[0][0].end - seen[0][0].start, ms(2));
}

/// How long a receiver sees a transfer last is no offset of its clock: down and up it cancels.
TEST(CommonClock, ALagOfReceiversIsNone) {
  SeenByDevice seen{{sent(1, 10, 12), received(2, 20, 24)}, {received(1, 10, 14), sent(2, 20, 22)}};
  align_clocks(seen, 3, true);
  expect_times(seen[1][0], 10, 14);
  expect_times(seen[1][1], 20, 22);
}

TEST(CommonClock, TransfersOfAnExchangeAreBegunTogether) {
  EXPECT_TRUE(begun_together(sent(1, 10, 14), received(2, 10, 15)));
  EXPECT_TRUE(begun_together(sent(1, 10, 14), received(2, 11, 16)));
  EXPECT_TRUE(begun_together(sent(1, 14, 14), received(2, 14, 14)));
  EXPECT_FALSE(begun_together(sent(1, 10, 14), received(2, 14, 18)));
  EXPECT_FALSE(begun_together(sent(1, 10, 14), received(2, 13, 18)));
}

}  // namespace
}  // namespace tandem::testing
