#include "tools/print/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/print/plot_labels.h"
#include "traces/svg.h"

namespace tandem::tools {

namespace {

/// From 0 to the end of the axis, by round steps.
struct Scale {
  double end = 1.0, step = 1.0;
  double of(double value) const { return value / end; }
};

Scale scale_for(double most, double steps) {
  if (!(most > 0.0) || !std::isfinite(most)) return {};
  const double rough = most / steps;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = (digit <= 1.0 ? 1.0 : digit <= 2.0 ? 2.0 : digit <= 5.0 ? 5.0 : 10.0) * power;
  return {.end = step * std::max(1.0, std::ceil(most / step - 1e-9)), .step = step};
}

struct Scales {
  Scale x, y;
};

Scales scales_of(const Plot& plot, double x_steps, double y_steps) {
  double x = plot.x_end, y = 0.0;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      x = std::max(x, point.x);
      y = std::max(y, point.y);
    }
  }
  if (plot.places.empty()) return {scale_for(x, x_steps), scale_for(y, y_steps)};
  const auto last = static_cast<double>(std::max<std::size_t>(plot.places.size(), 2) - 1);
  return {{.end = last, .step = 1.0}, scale_for(y, y_steps)};
}

/// Of an axis: where, from 0 to 1, and what is written there.
std::vector<std::pair<double, std::string>> ticks(const Scale& scale) {
  std::vector<std::pair<double, std::string>> ticks;
  const auto count = static_cast<int>(std::lround(scale.end / scale.step));
  for (int i = 0; i <= count; ++i)
    ticks.emplace_back(static_cast<double>(i) / count, fmt::format("{:.6g}", i * scale.step));
  return ticks;
}

std::vector<std::pair<double, std::string>> x_ticks(const Plot& plot, const Scale& scale) {
  if (plot.places.empty()) return ticks(scale);
  std::vector<std::pair<double, std::string>> places;
  for (std::size_t i = 0; i < plot.places.size(); ++i)
    places.emplace_back(scale.of(static_cast<double>(i)), plot.places[i]);
  return places;
}

bool has_hollow(const Plot& plot) {
  return std::ranges::any_of(plot.series, [](const PlotSeries& series) {
    return std::ranges::any_of(series.points, [](const PlotPoint& point) { return point.hollow; });
  });
}

std::vector<PlotPoint> numbered(const Plot& plot) {
  std::vector<PlotPoint> points;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (point.number > 0) points.push_back(point);
    }
  }
  std::ranges::sort(points, {}, &PlotPoint::number);
  return points;
}

/// Okabe and Ito's, without the yellow that white swallows.
constexpr std::array<std::string_view, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                      "#E69F00", "#56B4E9", "#000000"};

class Svg {
 public:
  explicit Svg(const Plot& plot) : chart_(plot), scales_(scales_of(plot, 8, 6)) {}

  std::string text() {
    const double height = kTop + kHeight + 70.0 + kLine * static_cast<double>(chart_.notes.size());
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + 200, height);
    write(kLeft, 24, "start", chart_.title);
    axes();
    limits();
    stairs();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) series(i);
    if (has_hollow(chart_))
      write(kLeft + kWidth + 18, kTop + 14 + kLine * static_cast<double>(chart_.series.size()),
            "start", "hollow: " + chart_.hollow);
    numbers();
    for (std::size_t i = 0; i < chart_.notes.size(); ++i)
      write(kLeft, kTop + kHeight + 66 + kLine * static_cast<double>(i), "start", chart_.notes[i]);
    return text_ + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 80, kTop = 44, kWidth = 680, kHeight = 400, kLine = 18;

  double x(const PlotPoint& point) const { return kLeft + kWidth * scales_.x.of(point.x); }
  double y(const PlotPoint& point) const { return kTop + kHeight * (1 - scales_.y.of(point.y)); }

  void write(double x, double y, std::string_view anchor, std::string_view text,
             std::string_view more = "") {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                         anchor, more, xml(text));
  }

  void axes() {
    for (const auto& [at, label] : x_ticks(chart_, scales_.x)) {
      const double x = kLeft + kWidth * at;
      text_ += fmt::format("<path d=\"M{:.1f} {}v{}\" stroke=\"#ddd\"/>\n", x, kTop, kHeight);
      write(x, kTop + kHeight + 18, "middle", label);
    }
    for (const auto& [at, label] : ticks(scales_.y)) {
      const double y = kTop + kHeight * (1 - at);
      text_ += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#ddd\"/>\n", kLeft, y, kWidth);
      write(kLeft - 8, y + 4, "end", label);
    }
    write(kLeft + kWidth / 2, kTop + kHeight + 40, "middle", chart_.x_title);
    write(20, kTop + kHeight / 2, "middle", chart_.y_title,
          fmt::format(" transform=\"rotate(-90 20 {})\"", kTop + kHeight / 2));
  }

  void limits() {
    double top = kTop + 14;  // each name below the one before: lines may be near one another
    for (const PlotLimit& limit : chart_.limits) {
      const double x = kLeft + kWidth * scales_.x.of(limit.x);
      text_ +=
          fmt::format("<path d=\"M{:.1f} {}v{}\" stroke=\"#b3261e\" stroke-dasharray=\"6 4\"/>\n",
                      x, kTop, kHeight);
      write(x - 5, top, "end", limit.name, " fill=\"#b3261e\"");
      top += kLine;
    }
  }

  /// Beside their points, none upon another.
  void numbers() {
    constexpr double kDigit = 8, kText = 13, kMark = 6;
    PlotLabels labels;
    labels.set_bounds(kLeft, kTop, kLeft + kWidth + 16, kTop + kHeight);
    const std::vector<PlotPoint> points = numbered(chart_);
    for (const PlotPoint& point : points) labels.keep_free(x(point), y(point), kMark, kMark);
    for (const PlotLimit& limit : chart_.limits)
      labels.keep_free(kLeft + kWidth * scales_.x.of(limit.x), kTop + kHeight / 2, 1, kHeight / 2);
    for (const PlotPoint& point : points) {
      const std::string number = std::to_string(point.number);
      const auto place =
          labels.place(x(point), y(point), kDigit * static_cast<double>(number.size()), kText);
      if (place.apart)
        text_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#999\"/>\n",
                             x(point), y(point), place.x, place.y);
      write(place.x, place.y + 4.5, "middle", number,
            " stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\"");
    }
  }

  void stairs() {
    std::string path;
    for (const PlotPoint& point : numbered(chart_)) {
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x(point), y(point))
                           : fmt::format("H{:.1f}V{:.1f}", x(point), y(point));
    }
    if (!path.empty())
      text_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#777\"/>\n", path);
  }

  /// Colours repeat after seven, marks after four: 28 look different.
  void mark(std::size_t series, double x, double y, bool hollow, std::string_view note) {
    constexpr std::array<std::string_view, 4> kMarks = {"m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
                                                        "m-4.5 -4.5h9v9h-9z", "m0 -6l5.5 10h-11z",
                                                        "m0 -6l6 6l-6 6l-6 -6z"};
    const std::string_view colour = kColours[series % kColours.size()];
    text_ += fmt::format(
        "<path d=\"M{:.1f} {:.1f}{}\" fill=\"{}\" stroke=\"{}\"><title>{}</title></path>\n", x, y,
        kMarks[series % kMarks.size()], hollow ? "white" : colour, colour, xml(note));
  }

  void series(std::size_t i) {
    const PlotSeries& series = chart_.series[i];
    std::string path;
    for (const PlotPoint& point : series.points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point), y(point));
    if (chart_.joined)
      text_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", path,
                           kColours[i % kColours.size()]);
    for (const PlotPoint& point : series.points)
      mark(i, x(point), y(point), point.hollow, point.note);
    const double legend = kTop + 10 + kLine * static_cast<double>(i);
    mark(i, kLeft + kWidth + 24, legend, false, series.name);
    write(kLeft + kWidth + 36, legend + 4, "start", series.name);
  }

  const Plot& chart_;
  Scales scales_;
  std::string text_;
};

using Grid = std::vector<std::string>;  // characters, row by row

char& cell_at(Grid& grid, double x, double y) {
  const auto place = [](double part, std::size_t count) {
    const double last = static_cast<double>(count - 1);
    return static_cast<std::size_t>(std::lround(std::clamp(part, 0.0, 1.0) * last));
  };
  return grid[place(1.0 - y, grid.size())][place(x, grid[0].size())];
}

char letter(std::size_t series, bool capital) {
  return static_cast<char>((capital ? 'A' : 'a') + static_cast<char>(series % 26));
}

void draw_points(const Plot& plot, const Scales& scales, bool numbered, Grid& grid) {
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    for (const PlotPoint& point : plot.series[i].points) {
      if ((point.number > 0) != numbered) continue;
      char& cell = cell_at(grid, scales.x.of(point.x), scales.y.of(point.y));
      const char mark = point.hollow ? '.' : letter(i, numbered);
      const bool empty = cell == ' ' || cell == ':';
      const bool free = empty || cell == '.' || cell == mark || numbered;
      if (mark != '.' || empty) cell = free ? mark : '*';
    }
  }
}

/// The labels of the x axis, without those that would touch the one before.
std::string labels(const Plot& plot, const Scale& scale, std::size_t columns) {
  std::string line(columns, ' ');
  std::size_t free = 0;
  for (const auto& [at, label] : x_ticks(plot, scale)) {
    const double middle = at * static_cast<double>(columns - 1);
    const double half = static_cast<double>(label.size()) / 2.0;
    if (label.size() > columns) continue;
    const auto first = static_cast<std::size_t>(
        std::clamp(middle - half + 0.5, 0.0, static_cast<double>(columns - label.size())));
    if (first < free) continue;
    line.replace(first, label.size(), label);
    free = first + label.size() + 1;
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

std::string plot_svg(const Plot& plot) { return Svg(plot).text(); }

std::string plot_text(const Plot& plot, std::size_t columns) {
  constexpr std::size_t kRows = 16, kMargin = 11;
  const Scales scales = scales_of(plot, 6, 4);
  Grid grid(kRows + 1, std::string(std::max<std::size_t>(columns, 2 * kMargin) - kMargin, ' '));
  for (const PlotLimit& limit : plot.limits) {
    for (std::size_t row = 0; row <= kRows; ++row)
      cell_at(grid, scales.x.of(limit.x), static_cast<double>(row) / kRows) = ':';
  }
  draw_points(plot, scales, false, grid);
  draw_points(plot, scales, true, grid);
  std::vector<std::string> left(grid.size());
  for (const auto& [at, label] : ticks(scales.y))
    left[static_cast<std::size_t>(std::lround((1.0 - at) * kRows))] = label;
  std::string text = fmt::format("{}\n{}\n", plot.title, plot.y_title);
  for (std::size_t row = 0; row < grid.size(); ++row) {
    const std::string line = fmt::format("{:>8} |{}", left[row], grid[row]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += fmt::format("{:>9}+{}\n{:>10}{}\n{:>10}{}\n", "", std::string(grid[0].size(), '-'), "",
                      labels(plot, scales.x, grid[0].size()), "", plot.x_title);
  for (std::size_t i = 0; i < plot.series.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : "   ", letter(i, false), plot.series[i].name);
  if (has_hollow(plot)) text += "   . " + plot.hollow;
  for (const PlotLimit& limit : plot.limits) text += "   : " + limit.name;
  if (!plot.series.empty()) text += "\n";
  for (const std::string& note : plot.notes) text += note + "\n";
  return text;
}

}  // namespace tandem::tools
