#include "tools/print/plot_labels.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::tools {

bool PlotLabels::free(const Box& box) const {
  const bool inside = box.left >= bounds_.left && box.right <= bounds_.right &&
                      box.top >= bounds_.top && box.bottom <= bounds_.bottom;
  return inside && std::ranges::none_of(taken_, [&](const Box& other) {
           return box.left < other.right && other.left < box.right && box.top < other.bottom &&
                  other.top < box.bottom;
         });
}

void PlotLabels::keep_free(double x, double y, double half_width, double half_height) {
  taken_.push_back({x - half_width, y - half_height, x + half_width, y + half_height});
}

PlotLabels::Place PlotLabels::place(double x, double y, double width, double height) {
  constexpr double kBeside = 6, kStep = 8, kFarthest = 90;
  constexpr std::array<std::pair<double, double>, 8> kSides{
      {{1, -1}, {-1, -1}, {1, 1}, {-1, 1}, {0, -1}, {0, 1}, {1, 0}, {-1, 0}}};
  const auto at = [&](double way, const std::pair<double, double>& side) {
    return Place{x + side.first * (way + width / 2), y + side.second * (way + height / 2),
                 way > kBeside};
  };
  const auto box = [&](const Place& place) {
    return Box{place.x - width / 2, place.y - height / 2, place.x + width / 2,
               place.y + height / 2};
  };
  Place found = at(kBeside, kSides[0]);
  for (double way = kBeside; way < kFarthest; way += kStep) {
    const auto* side =
        std::ranges::find_if(kSides, [&](const auto& each) { return free(box(at(way, each))); });
    if (side == kSides.end()) continue;
    found = at(way, *side);
    break;
  }
  taken_.push_back(box(found));
  return found;
}

}  // namespace tandem::tools
