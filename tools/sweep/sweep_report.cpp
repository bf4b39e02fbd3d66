#include "tools/sweep/sweep_report.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "tools/cli/file_roles.h"
#include "tools/cli/terminal.h"
#include "tools/sweep/sweep_picture.h"
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
  const auto found = std::find(sweep.axes.begin(), sweep.axes.end(), name);
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

}  // namespace

void SweepReport::check(const SweepIdentity& sweep) const {
  axis_named(sweep, "over", request_.over);
  axis_named(sweep, "by", request_.by);
}

Plot SweepReport::plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const {
  const std::optional<std::size_t> over = axis_named(sweep, "over", request_.over);
  std::optional<std::size_t> by = axis_named(sweep, "by", request_.by);
  for (std::size_t axis = 0; axis < sweep.axes.size() && !by; ++axis) {
    if (axis != over) by = axis;
  }
  return over ? lines_plot(sweep, rows, request_.metric, *over, by)
              : frontier_plot(sweep, rows, request_.metric, by);
}

void SweepReport::make(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const {
  if (!request_.csv.empty())
    write_sweep_file(request_.csv, sweep_csv(sweep, rows, request_.metric));
  if (!request_.svg.empty()) write_sweep_file(request_.svg, plot_svg(plot(sweep, rows)));
  if (request_.picture)
    fmt::print("{}\n",
               plot_text(plot(sweep, rows), static_cast<std::size_t>(picture_options().columns)));
  if (request_.table) fmt::print("{}", sweep_table(sweep, rows, request_.metric, request_.top));
}

namespace {

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const SweepMetric& metric : sweep_metrics()) names.emplace_back(metric.name);
  return names;
}

}  // namespace

void add_report_options(Options& options) {
  options.group("Table, files and pictures")
      .value("rank", "BY",
             fmt::format("{}: the order of the table (default throughput)",
                         fmt::join(metric_names(), ", ")))
      .value("top", "N", "rows of the table (default 20)")
      .output("csv", "FILE", "write all rows as a table with commas")
      .output("json-lines", "FILE", "write all rows, one JSON object a line")
      .flag("picture",
            "draw the ranked figure against memory, or with --over its best for each value of an "
            "option")
      .output("svg", "FILE", "write that picture as SVG")
      .value("over", "OPTION", "of the picture: the option whose values go from left to right")
      .value("by", "OPTION",
             "of the picture: the option whose values have a colour each (default: the first that "
             "is left)");
}

SweepReportRequest report_request(const Options& options) {
  SweepReportRequest request{
      .metric = sweep_metric(options.choice("rank", metric_names())),
      .top = static_cast<std::size_t>(options.integer("top", 0, 1'000'000, 20)),
      .table = !options.has("json"),
      .picture = options.has("picture"),
      .csv = options.text("csv"),
      .svg = options.text("svg"),
      .over = options.text("over"),
      .by = options.text("by")};
  for (const std::string& path : {request.csv, request.svg}) {
    if (!path.empty()) check_can_write(path);
  }
  if (request.picture && !request.table)
    throw UsageError("tandem sweep: give --picture or --json, not both");
  for (const char* name : {"over", "by"}) {
    if (options.has(name) && !request.picture && request.svg.empty())
      throw UsageError(fmt::format("tandem sweep: --{} is for --picture or --svg", name));
  }
  if (!request.over.empty() && request.over == request.by)
    throw UsageError("tandem sweep: --over and --by: expected two options");
  return request;
}

}  // namespace tandem::tools
