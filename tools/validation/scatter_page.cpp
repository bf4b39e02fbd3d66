#include "tools/validation/scatter_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/print/plot.h"
#include "traces/svg.h"

namespace tandem::tools {

namespace {

constexpr int kDiagonalPoints = 24;

/// Points where a prediction would be right, and those of the rows.
Plot plot_of(const ComparedSet& of) {
  Plot plot{.title = of.set->title,
            .x_title = "published: " + of.set->quantity,
            .y_title = "predicted",
            .hollow = "equal"};
  PlotSeries rows{.name = "rows"}, equal{.name = "equal"};
  double most = 0.0;
  for (const ComparedRow& row : of.rows) {
    most = std::max({most, row.published, row.predicted});
    rows.points.push_back({.x = row.published,
                           .y = row.predicted,
                           .note = fmt::format("{}{}{:+.1f} %", row.name,
                                               row.name.empty() ? "" : ": ", 100 * row.error())});
  }
  for (int i = 0; i <= kDiagonalPoints; ++i) {
    const double at = most * i / kDiagonalPoints;
    equal.points.push_back({.x = at, .y = at, .note = {}, .hollow = true});
  }
  plot.series = {std::move(rows), std::move(equal)};
  return plot;
}

}  // namespace

std::string scatter_page(std::span<const ComparedSet> sets) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>tandem "
      "validate</title>\n"
      "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}svg{max-width:100%}"
      "</style>\n<h1>Published and predicted</h1>\n";
  for (const ComparedSet& of : sets) {
    page +=
        fmt::format("<h2>{}</h2>\n<p>{}. Constants: {}. Held out: {}.</p>\n", xml(of.set->title),
                    xml(of.set->source), xml(of.set->constants), xml(of.set->held_out));
    if (!of.not_compared.empty()) {
      page += fmt::format("<p>Not compared: {}.</p>\n", xml(of.not_compared));
      continue;
    }
    page += fmt::format(
        "<p>{} rows: median error {:.1f} %, worst {:+.1f} %, rank correlation {:.3f}.</p>\n{}\n",
        of.errors.rows, 100 * of.errors.median, 100 * of.errors.worst, of.rank_correlation,
        plot_svg(plot_of(of)));
  }
  return page + "</html>\n";
}

}  // namespace tandem::tools
