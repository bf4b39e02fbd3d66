// When a run is said to repeat, and when not.

#include "simulator/contention/repetition.h"

#include <vector>

#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

using Times = std::vector<std::int64_t>;

/// The first cycle seen in these bodies.
std::optional<Repetition::Cycle> cycle_of(const std::vector<Times>& bodies) {
  Repetition repetition;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const auto cycle = repetition.after(static_cast<std::int64_t>(i), bodies[i]);
    if (cycle) return cycle;
  }
  return std::nullopt;
}

Times shifted(Times times, std::int64_t by) {
  for (std::int64_t& time : times) time += by;
  return times;
}

TEST(Repetition, IsSeenOnceABodyComesBack) {
  // Two instances, the second of which overlaps the next body's first.
  const Times first{0, 10, 10, 20}, usual{12, 22, 22, 32};
  const auto cycle =
      cycle_of({first, usual, shifted(usual, 15), shifted(usual, 30), shifted(usual, 45)});
  ASSERT_TRUE(cycle);
  EXPECT_EQ(cycle->time, 15);
  EXPECT_EQ(cycle->bodies, 1);
}

TEST(Repetition, MayTakeSeveralBodies) {
  const Times even{0, 10, 10, 20}, odd{15, 24, 24, 37};
  std::vector<Times> bodies;
  for (std::int64_t i = 0; i < 4; ++i) {
    bodies.push_back(shifted(even, 30 * i));
    bodies.push_back(shifted(odd, 30 * i));
  }
  const auto cycle = cycle_of(bodies);
  ASSERT_TRUE(cycle);
  EXPECT_EQ(cycle->time, 30);
  EXPECT_EQ(cycle->bodies, 2);
}

TEST(Repetition, IsNotSeenInBodiesThatDrift) {
  std::vector<Times> bodies;
  for (std::int64_t i = 0; i < 50; ++i) bodies.push_back({20 * i, 20 * i + 30 + i, 20 * i, 20 * i});
  EXPECT_FALSE(cycle_of(bodies));
}

TEST(Repetition, IsNotSeenInOneBodyWhereAnotherOverlapsItElsewhere) {
  // Each like the last, but each second one begins a little earlier while the one before is under
  // way: what is under way differs, though no body does.
  const Times body{0, 10, 10, 20};
  std::vector<Times> bodies;
  std::int64_t at = 0, step = 19;
  for (int i = 0; i < 12; ++i) {
    bodies.push_back(shifted(body, at));
    at += step--;
  }
  EXPECT_FALSE(cycle_of(bodies));
}

TEST(Repetition, TellsTheMeanOfTheSecondHalf) {
  Repetition repetition;
  EXPECT_EQ(repetition.mean_period(), 0.0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < 9; ++i) {
    (void)repetition.after(i, Times{at, at + 1000 + i});
    at += i < 4 ? 100 : 10;
  }
  EXPECT_DOUBLE_EQ(repetition.mean_period(), 10.0);
}

}  // namespace
}  // namespace tandem::testing
