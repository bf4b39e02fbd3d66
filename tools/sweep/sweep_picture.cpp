// Pictures of a sweep.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "tools/cli/json_output.h"
#include "tools/print/words.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

namespace {

double scaled(const SweepRow& row, std::size_t metric) {
  return row.metrics[metric] * sweep_metrics()[metric].scale;
}

std::string value_of(const SweepRow& row, std::size_t axis) {
  return row.values[axis].empty() ? "none" : printable_line(row.values[axis]);
}

/// The values of an axis in the order in which the configurations have them.
std::vector<std::string> values_on(const std::vector<SweepRow>& rows,
                                   std::optional<std::size_t> axis) {
  std::vector<std::string> values;
  std::set<std::string> known;
  for (const SweepRow& row : rows) {
    std::string value = axis ? value_of(row, *axis) : std::string();
    if (known.insert(value).second) values.push_back(std::move(value));
  }
  return values;
}

std::size_t place_in(const std::vector<std::string>& values, const std::string& value) {
  return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
}

/// "2bw, depth 8: 123.4 samples/s, 11.2 GiB".
std::string note_of(const SweepIdentity& sweep, const SweepRow& row,
                    const std::vector<std::size_t>& metrics) {
  std::string note = place_of(sweep, row);
  if (row.weights && !note.empty()) note += weights_mark(*row.weights);
  std::string figures;
  for (const std::size_t metric : metrics) {
    figures += fmt::format("{}{} {}", figures.empty() ? "" : ", ", sweep_metrics()[metric].title,
                           sweep_metrics()[metric].print(row.metrics[metric]));
  }
  return printable_line(note.empty() ? figures : note + ": " + figures);
}

/// Marked where none of a series trains by vanilla weights.
std::vector<PlotSeries> series_of(const std::vector<SweepRow>& rows,
                                  const std::vector<std::string>& names,
                                  std::optional<std::size_t> axis) {
  std::map<std::string, WeightSemantics> plainest;
  for (const SweepRow& row : rows) {
    if (!row.weights) continue;
    const auto [at, added] = plainest.emplace(axis ? value_of(row, *axis) : "", *row.weights);
    if (!added) at->second = std::min(at->second, *row.weights);
  }
  std::vector<PlotSeries> series;
  for (const std::string& name : names) {
    const auto weights = plainest.find(name);
    const std::string mark = weights == plainest.end() ? "" : weights_mark(weights->second);
    series.push_back({(name.empty() ? "configurations" : name) + mark});
  }
  return series;
}

/// Those that work and that no other beats in one metric and equals in the other, by ascending
/// memory.
std::vector<const SweepRow*> frontier(const std::vector<SweepRow>& rows, std::size_t metric,
                                      std::size_t memory) {
  const bool more = sweep_metrics()[metric].more_is_better;
  std::vector<const SweepRow*> order, best;
  for (const SweepRow& row : rows) {
    if (row.works() && !std::isnan(row.metrics[metric]) && !std::isnan(row.metrics[memory]))
      order.push_back(&row);
  }
  std::ranges::sort(order, [&](const SweepRow* a, const SweepRow* b) {
    const double x = a->metrics[memory], y = b->metrics[memory];
    if (x != y) return x < y;
    const double p = a->metrics[metric], q = b->metrics[metric];
    return p != q ? (p > q) == more : a->index < b->index;
  });
  for (const SweepRow* row : order) {
    const bool better =
        best.empty() || (row->metrics[metric] != best.back()->metrics[metric] &&
                         (row->metrics[metric] > best.back()->metrics[metric]) == more);
    if (better) best.push_back(row);
  }
  return best;
}

std::size_t memory_of(const std::vector<SweepRow>& rows) {
  const std::size_t bytes = sweep_metric("memory");
  const bool known = std::ranges::any_of(
      rows, [&](const SweepRow& row) { return !std::isnan(row.metrics[bytes]); });
  return known ? bytes : sweep_metric("activations");
}

/// "gpt2-xl on p3.16xlarge: ", where all configurations have the same.
std::string subject_of(const std::vector<SweepRow>& rows) {
  if (rows.empty() || rows[0].subject.empty()) return {};
  const bool same = std::ranges::all_of(
      rows, [&](const SweepRow& row) { return row.subject == rows[0].subject; });
  return same ? printable_line(rows[0].subject) + ": " : std::string();
}

/// As far as what works and, unless that is far from it, what there is; all where nothing works.
double memory_shown(const std::vector<SweepRow>& rows, std::size_t memory) {
  constexpr double kNear = 1.6;  // times what is used
  double used = 0.0, all = 0.0, shown = 0.0;
  for (const SweepRow& row : rows) {
    const double bytes = row.metrics[memory];
    if (!std::isfinite(bytes)) continue;
    all = std::max(all, bytes);
    if (row.works()) used = std::max(used, bytes);
  }
  if (used == 0.0) return all;
  shown = used;
  for (const SweepRow& row : rows) {
    if (row.capacity.value_or(0.0) < kNear * used)
      shown = std::max(shown, 1.02 * row.capacity.value_or(0.0));
  }
  return shown;
}

/// Lines at what devices have, and words of what lies beyond the edge.
void add_limits(const std::vector<SweepRow>& rows, std::size_t memory, double shown, Plot& plot) {
  const SweepMetric& metric = sweep_metrics()[memory];
  std::set<double> capacities;
  if (memory == sweep_metric("memory")) {
    for (const SweepRow& row : rows) capacities.insert(row.capacity.value_or(0.0));
    capacities.erase(0.0);
  }
  for (const double capacity : capacities) {
    const std::string name = "capacity " + metric.print(capacity);
    if (capacity <= shown)
      plot.limits.push_back({capacity * metric.scale, name});
    else
      plot.notes.push_back(name + " is beyond the right edge");
  }
  double most = 0.0;
  std::size_t beyond = 0;
  for (const SweepRow& row : rows) {
    if (!(row.metrics[memory] > shown)) continue;
    most = std::max(most, row.metrics[memory]);
    ++beyond;
  }
  if (beyond == 0) return;
  plot.notes.push_back(fmt::format("not shown: {} that {} not fit, up to {}", beyond,
                                   beyond == 1 ? "does" : "do", metric.print(most)));
}

}  // namespace

Plot frontier_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                   std::size_t metric, std::optional<std::size_t> by) {
  const std::size_t memory = memory_of(rows);
  if (metric == memory) metric = sweep_metric("throughput");
  const std::vector<std::string> names = values_on(rows, by);
  const std::vector<const SweepRow*> best = frontier(rows, metric, memory);
  const double shown = memory_shown(rows, memory);
  Plot plot{.title = fmt::format("{}{} by memory; no configuration is better than a numbered one "
                                 "in both",
                                 subject_of(rows), sweep_metrics()[metric].title),
            .x_title = std::string(sweep_metrics()[memory].axis),
            .y_title = std::string(sweep_metrics()[metric].axis),
            .series = series_of(rows, names, by),
            .x_end = shown * sweep_metrics()[memory].scale,
            .hollow = "does not fit"};
  for (const SweepRow& row : rows) {
    const double x = scaled(row, memory), y = scaled(row, metric);
    if (!std::isfinite(x) || !std::isfinite(y) || row.metrics[memory] > shown) continue;
    const auto at = std::ranges::find(best, &row);
    const auto number = static_cast<std::size_t>(at - best.begin()) + 1;
    plot.series[by ? place_in(names, value_of(row, *by)) : 0].points.push_back(
        {.x = x,
         .y = y,
         .note = note_of(sweep, row, {metric, memory}),
         .hollow = !row.works(),
         .number = at == best.end() ? 0 : number});
  }
  for (std::size_t i = 0; i < best.size(); ++i)
    plot.notes.push_back(
        fmt::format("{:>3}  {}", i + 1, note_of(sweep, *best[i], {metric, memory})));
  add_limits(rows, memory, shown, plot);
  return plot;
}

Plot lines_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows, std::size_t metric,
                std::size_t over, std::optional<std::size_t> by) {
  const std::vector<std::string> names = values_on(rows, by), places = values_on(rows, over);
  Plot plot{.title = fmt::format("{}{} by {}, the best of what fits", subject_of(rows),
                                 sweep_metrics()[metric].title, sweep.axes[over]),
            .x_title = sweep.axes[over],
            .y_title = std::string(sweep_metrics()[metric].axis),
            .places = places,
            .series = series_of(rows, names, by),
            .joined = true};
  std::map<std::pair<std::size_t, std::size_t>, const SweepRow*> best;  // of a series and a place
  for (const std::size_t at : ranking(rows, metric)) {
    const SweepRow& row = rows[at];
    if (!row.works() || !std::isfinite(row.metrics[metric])) continue;
    const std::size_t series = by ? place_in(names, value_of(row, *by)) : 0;
    best.emplace(std::pair(series, place_in(places, value_of(row, over))), &row);
  }
  for (const auto& [place, row] : best) {
    plot.series[place.first].points.push_back({.x = static_cast<double>(place.second),
                                               .y = scaled(*row, metric),
                                               .note = note_of(sweep, *row, {metric})});
  }
  return plot;
}

}  // namespace tandem::tools
