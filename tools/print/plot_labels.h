#pragma once
// Where a picture's labels stand: beside what they name, and none upon another.

#include <vector>

namespace tandem::tools {

class PlotLabels {
 public:
  struct Place {
    double x = 0.0, y = 0.0;  // the label's middle
    bool apart = false;       // so far from its point that a line should join them
  };

  /// A mark that no label may hide: its middle, and how far it goes from there.
  void keep_free(double x, double y, double half_width, double half_height);
  /// For a label so large, near a point: the nearest free place within the picture's rectangle;
  /// where none is free, the nearest.
  Place place(double x, double y, double width, double height);
  /// Labels stay in here.
  void set_bounds(double left, double top, double right, double bottom) {
    bounds_ = {left, top, right, bottom};
  }

 private:
  struct Box {
    double left, top, right, bottom;
  };
  bool free(const Box& box) const;

  Box bounds_{};
  std::vector<Box> taken_;
};

}  // namespace tandem::tools
