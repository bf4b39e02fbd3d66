#include "tools/sweep/sweep_report.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
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

}  // namespace tandem::tools
