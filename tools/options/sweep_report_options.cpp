#include "tools/options/sweep_report_options.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/output_place.h"

namespace tandem::tools {

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
      .output("csv", "FILE", "write all rows as CSV")
      .output("json-lines", "FILE", "write all rows, one JSON object a line")
      .flag("picture",
            "draw the ranked figure against memory, or with --over its best for each value of an "
            "option")
      .output("svg", "FILE", "write that picture as SVG")
      .value("over", "OPTION", "the picture's horizontal axis: an option")
      .value("by", "OPTION",
             "one colour per value of this option in the picture (default: the first option that "
             "is left)");
}

SweepReportRequest report_request(const Options& options, std::string csv, std::string svg) {
  SweepReportRequest request{
      .metric = sweep_metric(options.choice("rank", metric_names())),
      .top = static_cast<std::size_t>(options.integer("top", 0, 1'000'000, 20)),
      .table = !options.has("json"),
      .picture = options.has("picture"),
      .csv = std::move(csv),
      .svg = std::move(svg),
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
