// Minima that are known.

#include "simulator/cost/least_squares.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Point = std::vector<double>;

TEST(LeastSquares, ALineThroughPointsIsFoundAtOnce) {
  const auto residuals = [](std::span<const double> line) {
    Point values;
    for (const auto& [x, y] : {std::pair{0.0, 1.0}, {1.0, 3.0}, {2.0, 5.0}, {3.0, 7.0}})
      values.push_back(line[0] + line[1] * x - y);
    return values;
  };
  const Point found = least_squares(residuals, {0.0, 0.0}, 20);
  EXPECT_NEAR(found[0], 1.0, 1e-4);
  EXPECT_NEAR(found[1], 2.0, 1e-4);
}

TEST(LeastSquares, ABentValleyIsFollowed) {
  // Rosenbrock's function.
  const auto residuals = [](std::span<const double> at) {
    return Point{10.0 * (at[1] - at[0] * at[0]), 1.0 - at[0]};
  };
  const Point found = least_squares(residuals, {-1.2, 1.0}, 200);
  EXPECT_NEAR(found[0], 1.0, 1e-3);
  EXPECT_NEAR(found[1], 1.0, 1e-3);
}

TEST(LeastSquares, WhatDoesNotFitEndsAtTheMean) {
  const auto residuals = [](std::span<const double> at) { return Point{at[0] - 1.0, at[0] + 5.0}; };
  EXPECT_NEAR(least_squares(residuals, {40.0}, 20)[0], -2.0, 1e-3);
}

TEST(LeastSquares, StepsAreCounted) {
  const auto residuals = [](std::span<const double> at) { return Point{std::exp(at[0]) - 1.0}; };
  EXPECT_EQ(least_squares(residuals, {3.0}, 0), Point{3.0});
  const double once = least_squares(residuals, {3.0}, 1)[0];
  EXPECT_LT(once, 3.0);
  EXPECT_GT(once, 1.0);
}

}  // namespace
}  // namespace tandem
