// Schedules made of building blocks (Pipeline Parallelism with Controllable Memory, arXiv
// 2405.15362) against the bubbles and the activations of the authors' generators.

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/simulate.h"
#include "tests/simulator/published.h"

namespace tandem::testing {
namespace {

/// What a device waits between its first op and its last, in the unit of the costs.
std::int64_t bubble(const Pipeline& wanted, const PlainCosts& costs = split(1, 1, 1)) {
  const std::int64_t work = 2 * wanted.request.microbatches * (costs.forward + costs.backward);
  return simulated(wanted, costs).span.count() - work;
}

double most_activations(const Pipeline& wanted) {
  double most = 0.0;
  for (const DeviceUse& use : simulated(wanted, kUnit).devices) {
    most = std::max(most, use.peak_activations);
  }
  return most;
}

std::int64_t bubble_of_v_min(int p) { return p % 3 == 0 ? 4 * p - 7 : 4 * p - 5; }
std::int64_t bubble_of_v_half(int p) {
  if (p == 2) return 1;
  return p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
}

TEST(BuildingBlock, HoldsTheActivationsOfThePaper) {
  for (int p = 2; p <= 16; ++p) {
    SCOPED_TRACE(p);
    for (const int m : {2 * p, 3 * p + 1}) {
      // Whole activations of a device: what the paper counts, an activation of each chunk.
      const auto whole = [m, p](std::string_view name) {
        return static_cast<int>(most_activations(pipeline(name, p, m)) + 0.5);
      };
      EXPECT_EQ(whole("v-min"), (p + 4) / 3);
      EXPECT_EQ(whole("v-half"), (p + 2) / 2);
      EXPECT_EQ(most_activations(pipeline("v-zb", p, m)), p);
    }
  }
}

TEST(BuildingBlock, HasTheBubblesOfThePaper) {
  for (int p = 2; p <= 16; ++p) {
    for (const int m : {2 * p, 4 * p + 1}) {
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      EXPECT_EQ(bubble(pipeline("v-min", p, m)), bubble_of_v_min(p));
      EXPECT_EQ(bubble(pipeline("v-half", p, m)), bubble_of_v_half(p));
      EXPECT_EQ(bubble(pipeline("v-zb", p, m)), 0);
    }
  }
}

// The bubbles of V-Min repeat with every microbatch where times differ, those of V-Half do not.
TEST(BuildingBlock, WaitsAsPublishedWhereTimesDiffer) {
  struct Case {
    int m;
    std::int64_t v_min_342, v_half_342, v_min_221, v_half_221;
  };
  for (const Case& one : {Case{8, 82, 29, 37, 15}, {16, 130, 29, 53, 15}, {32, 226, 29, 85, 15}}) {
    SCOPED_TRACE(one.m);
    EXPECT_EQ(bubble(pipeline("v-min", 4, one.m), split(3, 4, 2)), one.v_min_342);
    EXPECT_EQ(bubble(pipeline("v-half", 4, one.m), split(3, 4, 2)), one.v_half_342);
    EXPECT_EQ(bubble(pipeline("v-min", 4, one.m), split(2, 2, 1)), one.v_min_221);
    EXPECT_EQ(bubble(pipeline("v-half", 4, one.m), split(2, 2, 1)), one.v_half_221);
  }
}

// At F = 1, B = 2; 1F1B itself would wait 6(p − 1).
TEST(OneForwardOneBackwardInAV, HasTheBubblesAndTheActivationsOfItsAuthors) {
  struct Case {
    int p;
    std::int64_t bubble;
    double chunks_held;
  };
  for (const Case& one : {Case{2, 4, 4}, {3, 8, 6}, {4, 15, 6}, {6, 22, 10}, {8, 33, 12}}) {
    for (const int m : {3 * one.p, 5 * one.p}) {
      SCOPED_TRACE(fmt::format("p {} m {}", one.p, m));
      const Pipeline wanted = pipeline("1f1b-v", one.p, m);
      EXPECT_EQ(bubble(wanted, kUnit), one.bubble);
      EXPECT_EQ(2 * most_activations(wanted), one.chunks_held);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
