#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/text/count_text.h"
#include "traces/compare.h"

namespace tandem {
namespace {

constexpr std::size_t kUnmatchedShown = 5;

using Cells = std::vector<std::string>;

/// Columns as wide as their widest cell: the first to the left, numbers to the right.
std::string table(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

/// With its sign: print_duration() knows only lengths.
std::string signed_duration(Duration duration) {
  return duration < Duration::zero() ? "-" + print_duration(-duration)
                                     : "+" + print_duration(duration);
}

std::string percent(const Compared& value) {
  const auto error = value.error_percent();
  return error ? fmt::format("{:+.1f} %", *error) : "-";
}

Cells row_of(std::string title, const Compared& value) {
  return {std::move(title), print_duration(value.simulated), print_duration(value.measured),
          percent(value)};
}

std::string describe(const TimelineRecord& record) {
  std::string kind(name(record.kind));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  std::string text = fmt::format("{} {}, stage {}, device {}", kind, record.microbatch,
                                 index(record.replica), index(record.device));
  if (record.peer != record.device) text += fmt::format(" to {}", index(record.peer));
  return text;
}

std::string whole_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"", "simulated", "measured", "error"}};
  rows.push_back(row_of("makespan", comparison.makespan));
  if (comparison.step) {
    const std::string title = comparison.warm_up_batches == 0 ? std::string("time per step")
                              : comparison.warm_up_batches == 1
                                  ? std::string("time per step, without the first batch")
                                  : fmt::format("time per step, without the first {} batches",
                                                comparison.warm_up_batches);
    rows.push_back(row_of(title, *comparison.step));
  }
  return table(rows);
}

std::string device_table(const Comparison& comparison) {
  std::vector<Cells> rows{
      {"device", "busy: simulated", "measured", "error", "bubble: simulated", "measured"}};
  const auto share = [](Duration part, Duration whole) {
    return whole == Duration::zero()
               ? std::string("-")
               : fmt::format("{:.1f} %", 100.0 * to_seconds(part) / to_seconds(whole));
  };
  for (const DeviceComparison& row : comparison.devices) {
    Cells cells = row_of(std::to_string(index(row.device)), row.busy);
    cells.push_back(share(row.bubble.simulated, comparison.makespan.simulated));
    cells.push_back(share(row.bubble.measured, comparison.makespan.measured));
    rows.push_back(std::move(cells));
  }
  return table(rows);
}

std::string kind_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"op", "count", "mean: simulated", "measured", "error",
                           "|error| of an op: median", "95th percentile"}};
  for (const KindComparison& row : comparison.kinds) {
    std::string kind(name(row.kind));
    std::replace(kind.begin(), kind.end(), '_', ' ');
    rows.push_back({kind, std::to_string(row.count), print_duration(row.mean.simulated),
                    print_duration(row.mean.measured), percent(row.mean),
                    print_duration(row.median_error), print_duration(row.percentile_95_error)});
  }
  return table(rows);
}

std::string worst_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"largest differences", "simulated", "measured", "difference"}};
  for (const OpComparison& op : comparison.worst) {
    const Compared duration = op.duration();
    rows.push_back({describe(op.simulated), print_duration(duration.simulated),
                    print_duration(duration.measured), signed_duration(duration.difference())});
  }
  return table(rows);
}

std::string unmatched(const TimelineRecords& records, const std::string& where) {
  if (records.empty()) return "";
  std::string text = fmt::format("\nonly in the {}: {}\n", where, counted(records.size(), "op"));
  for (std::size_t i = 0; i < std::min(records.size(), kUnmatchedShown); ++i) {
    text += "  " + describe(records[i]) + "\n";
  }
  if (records.size() > kUnmatchedShown) text += "  …\n";
  return text;
}

}  // namespace

std::string print_comparison(const Comparison& comparison) {
  std::string text = whole_table(comparison);
  text += fmt::format("{} on both sides, {}\n", counted(comparison.matched, "op"),
                      counted(comparison.batches, "batch"));
  if (!comparison.devices.empty()) text += "\n" + device_table(comparison);
  if (!comparison.kinds.empty()) text += "\n" + kind_table(comparison);
  if (!comparison.worst.empty()) text += "\n" + worst_table(comparison);
  text += unmatched(comparison.only_simulated, "simulation");
  text += unmatched(comparison.only_measured, "measurement");
  return text;
}

}  // namespace tandem
