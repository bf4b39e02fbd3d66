#pragma once
// A chart of points, as SVG and as text for a terminal.

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::tools {

struct ChartPoint {
  double x = 0.0, y = 0.0;  // from 0 on
  std::string note = {};    // shown where one points at it
  bool hollow = false;
  std::size_t number = 0;  // above 0: stands out, explained by Chart::notes[number - 1]
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points = {};
};

struct Chart {
  std::string title, x_title, y_title;
  std::vector<std::string> places = {};  // names of x = 0, 1, …; empty: x is a quantity
  std::vector<ChartSeries> series = {};
  bool joined = false;                  // the points of each series, by lines
  std::string hollow = {};              // what hollow points are
  std::vector<std::string> notes = {};  // a line each
};

/// Complete, colour-blind-safe, of one file. Numbered points are joined by stairs.
std::string chart_svg(const Chart& chart);

/// At most so wide, but for long notes. A series has a letter; numbered points are capitals, hollow
/// ones dots.
std::string chart_text(const Chart& chart, std::size_t columns);

}  // namespace tandem::tools
