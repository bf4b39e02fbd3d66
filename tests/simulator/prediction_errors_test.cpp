// Errors of predictions, counted by hand.

#include "simulator/cost/prediction_errors.h"

#include <array>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(PredictionErrors, AreSummedUp) {
  const PredictionErrors errors = summary_of({0.1, -0.2, 0.0, 0.1, -0.05});
  EXPECT_EQ(errors.rows, 5u);
  EXPECT_NEAR(errors.mean, 0.09, 1e-12);
  EXPECT_NEAR(errors.bias, -0.01, 1e-12);
  EXPECT_EQ(errors.median, 0.1);
  EXPECT_EQ(errors.percentile_80, 0.1);
  EXPECT_EQ(errors.percentile_95, 0.2);
  EXPECT_EQ(errors.worst, -0.2);
}

TEST(PredictionErrors, RanksAreNotTimes) {
  constexpr std::array kTimes{1.0, 2.0, 3.0}, kOthers{10.0, 20.0, 300.0};
  constexpr std::array kReversed{300.0, 20.0, 1.0}, kEqual{7.0, 7.0, 7.0}, kTied{1.0, 1.0, 2.0};
  EXPECT_NEAR(rank_correlation(kOthers, kTimes), 1.0, 1e-12);
  EXPECT_NEAR(rank_correlation(kReversed, kTimes), -1.0, 1e-12);
  EXPECT_EQ(rank_correlation(kEqual, kTimes), 0.0);
  EXPECT_NEAR(rank_correlation(kTied, kTimes), 0.866, 1e-3);
}

}  // namespace
}  // namespace tandem
