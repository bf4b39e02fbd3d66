// Ops at two paces against closed forms.

#include "simulator/contention/slowed_compute.h"

#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

TEST(SlowedCompute, TakesItsTimeWhereNothingMoves) {
  SlowedCompute compute({2.0});
  compute.begin(0, 7, 1000, 50);
  compute.settle(50);
  EXPECT_EQ(compute.next_end(), 1050);
  EXPECT_EQ(compute.end(), 7U);
  EXPECT_EQ(compute.next_end(), kNever);
}

TEST(SlowedCompute, IsRescaledWheneverMovingBeginsAndCeases) {
  SlowedCompute compute({3.0});
  compute.begin(0, 0, 1000, 0);
  compute.settle(0);
  // 400 done; 100 more in 300; 500 left.
  compute.movement_begins(0);
  compute.settle(400);
  EXPECT_EQ(compute.next_end(), 400 + 3 * 600);
  compute.movement_ends(0);
  compute.settle(700);
  EXPECT_EQ(compute.next_end(), 700 + 500);
}

TEST(SlowedCompute, IsSlowedOnceHoweverMuchMoves) {
  SlowedCompute compute({2.0});
  compute.movement_begins(0);
  compute.begin(0, 0, 100, 0);
  compute.settle(0);
  compute.movement_begins(0);
  compute.settle(50);
  EXPECT_EQ(compute.next_end(), 200);
  compute.movement_ends(0);
  compute.settle(60);
  EXPECT_EQ(compute.next_end(), 200) << "one still moves";
}

TEST(SlowedCompute, KeepsDevicesApart) {
  SlowedCompute compute({2.0, 1.5});
  compute.begin(0, 10, 100, 0);
  compute.begin(1, 11, 100, 0);
  compute.movement_begins(1);
  compute.settle(0);
  EXPECT_EQ(compute.next_end(), 100);
  EXPECT_EQ(compute.end(), 10U);
  EXPECT_EQ(compute.next_end(), 150);
  EXPECT_EQ(compute.end(), 11U);
}

}  // namespace
}  // namespace tandem::testing
