#include "tools/sweep/sweep_report.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "tools/cli/terminal.h"
#include "tools/print/near_fits.h"
#include "traces/chrome/atomic_file.h"

namespace tandem::tools {

namespace {

void write_sweep_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.finish();
}

/// Empty: no name is given. Throws UsageError where the sweep has no such axis.
std::optional<std::size_t> axis_named(const SweepIdentity& sweep, const char* option,
                                      const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto found = std::ranges::find(sweep.axes, name);
  if (found != sweep.axes.end()) return static_cast<std::size_t>(found - sweep.axes.begin());
  if (sweep.axes.empty()) {
    throw UsageError(
        fmt::format("tandem sweep: --{} {}: no option has several values", option, name));
  }
  throw UsageError(
      fmt::format("tandem sweep: --{}: expected an option of several values ({}), found "
                  "\"{}\"{}",
                  option, fmt::join(sweep.axes, ", "), name, did_you_mean(name, sweep.axes)));
}

Plot plot_of(const SweepReportRequest& request, const SweepIdentity& sweep,
             const std::vector<SweepRow>& rows) {
  const std::optional<std::size_t> over = axis_named(sweep, "over", request.over);
  std::optional<std::size_t> by = axis_named(sweep, "by", request.by);
  for (std::size_t axis = 0; axis < sweep.axes.size() && !by; ++axis) {
    if (axis != over) by = axis;
  }
  return over ? lines_plot(sweep, rows, request.metric, *over, by)
              : frontier_plot(sweep, rows, request.metric, by);
}

constexpr std::size_t kMostMisses = 3, kMostFits = 3;

std::vector<std::string> nearest(const ScenarioRequest& request) {
  if (request.cluster() == nullptr) return {};
  std::vector<std::string> lines = near_fits(set_up_on_cluster(*request.cluster()));
  lines.resize(std::min(lines.size(), kMostFits));
  return lines;
}

}  // namespace

void check_report(const SweepReportRequest& request, const SweepIdentity& sweep) {
  axis_named(sweep, "over", request.over);
  axis_named(sweep, "by", request.by);
}

void make_report(const SweepReportRequest& request, const SweepIdentity& sweep,
                 const std::vector<SweepRow>& rows) {
  if (!request.csv.empty()) write_sweep_file(request.csv, sweep_csv(sweep, rows, request.metric));
  if (!request.svg.empty()) write_sweep_file(request.svg, plot_svg(plot_of(request, sweep, rows)));
  if (request.picture) {
    const auto columns = static_cast<std::size_t>(picture_options().columns);
    fmt::print("{}\n", plot_text(plot_of(request, sweep, rows), columns));
  }
  if (request.table) fmt::print("{}", sweep_table(sweep, rows, request.metric, request.top));
}

std::string nearest_misses(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                           const std::function<ScenarioRequest(std::size_t)>& request) {
  const std::size_t memory = sweep_metric("memory");
  std::vector<const SweepRow*> misses;
  for (const SweepRow& row : rows) {
    if (row.works()) return {};
    if (row.simulated()) misses.push_back(&row);
  }
  if (misses.empty()) return {};
  std::ranges::stable_sort(misses, {}, [&](const SweepRow* row) { return row->metrics[memory]; });
  std::string text =
      "\nnothing fits; these are nearest by memory, each with options that fit instead:\n";
  for (std::size_t i = 0; i < std::min(misses.size(), kMostMisses); ++i) {
    const SweepRow& row = *misses[i];
    const std::string place = place_of(sweep, row);
    text +=
        fmt::format("{}: {} on the fullest device\n", place.empty() ? "the configuration" : place,
                    sweep_metrics()[memory].print(row.metrics[memory]));
    const std::vector<std::string> fits = nearest(request(row.index));
    for (const std::string& line : fits) text += "  " + line + "\n";
    if (fits.empty()) text += "  nothing similar fits\n";
  }
  return text;
}

}  // namespace tandem::tools
