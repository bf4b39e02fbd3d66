#pragma once
// A plot of points, as SVG and as text for a terminal.

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::tools {

struct PlotPoint {
  double x = 0.0, y = 0.0;  // from 0 on
  std::string note = {};    // shown where one points at it
  bool hollow = false;
  std::size_t number = 0;  // above 0: stands out, explained by Plot::notes[number - 1]
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points = {};
};

/// A line across the picture, where no more fits.
struct PlotLimit {
  double x = 0.0;
  std::string name;
};

struct Plot {
  std::string title, x_title, y_title;
  std::vector<std::string> places = {};  // names of x = 0, 1, …; empty: x is a quantity
  std::vector<PlotSeries> series = {};
  double x_end = 0.0;  // above 0: how far the axis goes at least, for no point does
  std::vector<PlotLimit> limits = {};
  bool joined = false;                  // the points of each series, by lines
  std::string hollow = {};              // what hollow points are
  std::vector<std::string> notes = {};  // a line each
};

/// Complete, colour-blind-safe, of one file. Numbered points are joined by stairs.
std::string plot_svg(const Plot& plot);

/// At most so wide, but for long notes. A series has a letter; numbered points are capitals, hollow
/// ones dots.
std::string plot_text(const Plot& plot, std::size_t columns);

}  // namespace tandem::tools
