#include "tools/print/plot_labels.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::tools {
namespace {

constexpr double kWidth = 16, kHeight = 13;

bool overlap(const PlotLabels::Place& one, const PlotLabels::Place& other) {
  return std::abs(one.x - other.x) < kWidth && std::abs(one.y - other.y) < kHeight;
}

TEST(PlotLabels, StandBesideTheirPointsAndNoneUponAnother) {
  PlotLabels labels;
  labels.set_bounds(0, 0, 600, 400);
  std::vector<PlotLabels::Place> places;
  int apart = 0;
  for (int i = 0; i < 20; ++i) {  // nearer to one another than a label is wide
    const double x = 300 + 3 * i, y = 200 - 2 * i;
    const PlotLabels::Place place = labels.place(x, y, kWidth, kHeight);
    EXPECT_LT(std::hypot(place.x - x, place.y - y), 140.0);
    for (const auto& other : places) EXPECT_FALSE(overlap(place, other)) << i;
    places.push_back(place);
    apart += place.apart ? 1 : 0;
  }
  EXPECT_FALSE(places[0].apart);
  EXPECT_GT(apart, 0);
}

TEST(PlotLabels, StayInThePictureAndOffTheMarks) {
  PlotLabels labels;
  labels.set_bounds(0, 0, 600, 400);
  labels.keep_free(585, 25, 6, 6);
  const PlotLabels::Place place = labels.place(595, 5, kWidth, kHeight);
  EXPECT_LE(place.x + kWidth / 2, 600);
  EXPECT_GE(place.y - kHeight / 2, 0);
  EXPECT_FALSE(std::abs(place.x - 585) < kWidth / 2 + 6 &&
               std::abs(place.y - 25) < kHeight / 2 + 6);
}

}  // namespace
}  // namespace tandem::tools
