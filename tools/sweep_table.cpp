#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tools/json_output.h"
#include "tools/sweep_report.h"

namespace tandem::tools {

namespace {

struct Column {
  std::string title;
  bool left = false;
  std::vector<std::string> cells = {};
};

/// Two spaces between, none at the end of a line.
std::string lines_of(const std::vector<Column>& columns) {
  const std::size_t rows = columns.front().cells.size();
  std::string text;
  for (std::size_t row = 0; row <= rows; ++row) {  // the titles first
    std::string line;
    for (const Column& column : columns) {
      std::size_t width = column.title.size();
      for (const std::string& cell : column.cells) width = std::max(width, cell.size());
      const std::string& cell = row == 0 ? column.title : column.cells[row - 1];
      line +=
          column.left ? fmt::format("{:<{}}  ", cell, width) : fmt::format("{:>{}}  ", cell, width);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// Those that are shown: what ranks, and what most ask for, where any row has it.
std::vector<std::size_t> shown_metrics(const std::vector<SweepRow>& rows, std::size_t ranks) {
  std::vector<std::size_t> shown{ranks};
  const auto known = [&](std::size_t metric) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const SweepRow& row) { return !std::isnan(row.metrics[metric]); });
  };
  const bool bytes = known(sweep_metric("memory"));
  for (const char* name : {"throughput", "flops", "period", "bubble", "memory", "activations"}) {
    const std::size_t metric = sweep_metric(name);
    const bool second_choice = bytes && std::string_view(name) == "activations";
    if (metric != ranks && !second_choice && known(metric)) shown.push_back(metric);
  }
  return shown;
}

std::string ranked_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                         const std::vector<std::size_t>& order, std::size_t metric) {
  std::vector<Column> columns;
  columns.push_back({.title = "#"});
  for (const std::string& axis : sweep.axes) columns.push_back({axis, true});
  const std::vector<std::size_t> metrics = shown_metrics(rows, metric);
  for (const std::size_t one : metrics)
    columns.push_back({std::string(sweep_metrics()[one].title)});
  const bool fits = std::any_of(rows.begin(), rows.end(),
                                [](const SweepRow& row) { return row.fits.has_value(); });
  if (fits) columns.push_back({"fits", true});
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const SweepRow& row = rows[order[rank]];
    std::size_t at = 0;
    columns[at++].cells.push_back(std::to_string(rank + 1));
    for (const std::string& value : row.values) columns[at++].cells.push_back(harmless(value));
    for (const std::size_t one : metrics) {
      const double value = row.metrics[one];
      columns[at++].cells.push_back(std::isnan(value) ? "" : sweep_metrics()[one].print(value));
    }
    if (fits) columns[at].cells.push_back(!row.fits ? "" : *row.fits ? "yes" : "NO");
  }
  return lines_of(columns);
}

/// Where a row is in the sweep: "schedule 2bw, depth 4".
std::string place_of(const SweepIdentity& sweep, const SweepRow& row) {
  std::string place;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (row.values[i].empty()) continue;
    place += fmt::format("{}{} {}", place.empty() ? "" : ", ", sweep.axes[i], row.values[i]);
  }
  return harmless(place);
}

/// Its first line, without the command that nobody gave.
std::string reason_of(const SweepRow& row) {
  constexpr std::string_view kCommand = "tandem simulate: ";
  std::string_view reason = row.refusal;
  if (reason.starts_with(kCommand)) reason.remove_prefix(kCommand.size());
  return harmless(reason.substr(0, reason.find('\n')));
}

/// The reasons of those refused, the most frequent first.
std::string refusals(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) {
  struct Reason {
    std::string text;
    const SweepRow* first = nullptr;
    std::size_t count = 0;
  };
  std::vector<Reason> reasons;
  std::map<std::string, std::size_t> known;
  for (const SweepRow& row : rows) {
    if (row.simulated()) continue;
    std::string text = reason_of(row);
    const auto [at, added] = known.emplace(text, reasons.size());
    if (added) reasons.push_back({std::move(text), &row});
    ++reasons[at->second].count;
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.count > b.count; });
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, reasons.size()); ++i) {
    const std::string place = place_of(sweep, *reasons[i].first);
    text += fmt::format(
        "{:>6}  {}{}\n", reasons[i].count, reasons[i].text,
        place.empty() ? "" : fmt::format(" ({}{})", reasons[i].count > 1 ? "first: " : "", place));
  }
  if (reasons.size() > kMost)
    text += fmt::format("        and {} other reasons\n", reasons.size() - kMost);
  return text.empty() ? text : "\nrefused:\n" + text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string summary(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) {
  std::size_t simulated = 0, fit = 0, known = 0;
  for (const SweepRow& row : rows) {
    simulated += row.simulated() ? 1 : 0;
    known += row.fits ? 1 : 0;
    fit += row.fits.value_or(false) ? 1 : 0;
  }
  const std::string all = rows.size() == sweep.configurations
                              ? std::to_string(rows.size())
                              : fmt::format("{} of {}", rows.size(), sweep.configurations);
  return fmt::format("{} configuration{}: {} simulated{}, {} refused\n", all, all == "1" ? "" : "s",
                     simulated, known == 0 ? "" : fmt::format(", of which {} fit", fit),
                     rows.size() - simulated);
}

}  // namespace

std::vector<std::size_t> ranking(const std::vector<SweepRow>& rows, std::size_t metric) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [&](const SweepRow& row) { return row.works() ? 0 : row.simulated() ? 1 : 2; };
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    const SweepRow &a = rows[left], &b = rows[right];
    if (group(a) != group(b)) return group(a) < group(b);
    const double x = a.metrics[metric], y = b.metrics[metric];
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return (x > y) == sweep_metrics()[metric].more_is_better;
    return a.index < b.index;
  });
  return order;
}

std::string sweep_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                        std::size_t metric, std::size_t top) {
  std::string text = summary(sweep, rows);
  std::vector<std::size_t> order = ranking(rows, metric);
  std::erase_if(order, [&](std::size_t at) { return !rows[at].simulated(); });
  if (!order.empty() && std::isnan(rows[order.front()].metrics[metric]))
    text += fmt::format("no configuration has a {}: they stand in their order\n",
                        sweep_metrics()[metric].name);
  const std::size_t ranked = order.size();
  order.resize(std::min(top, ranked));
  if (!order.empty()) text += "\n" + ranked_table(sweep, rows, order, metric);
  if (!order.empty() && order.size() < ranked)
    text += fmt::format("and {} more\n", ranked - order.size());
  text += refusals(sweep, rows);
  if (!order.empty())
    text += fmt::format("\nthe first one: {}\n", harmless(rows[order.front()].command));
  return text;
}

std::string sweep_csv(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                      std::size_t metric) {
  std::string text = "index,rank";
  for (const std::string& axis : sweep.axes) text += "," + csv_cell(axis);
  for (const SweepMetric& one : sweep_metrics()) text += fmt::format(",{}", one.key);
  text += ",fits,refused\n";
  const std::vector<std::size_t> order = ranking(rows, metric);
  std::vector<std::size_t> rank(rows.size()), by_index(rows.size());
  for (std::size_t at = 0; at < order.size(); ++at) rank[order[at]] = at + 1;
  std::iota(by_index.begin(), by_index.end(), std::size_t{0});
  std::sort(by_index.begin(), by_index.end(),
            [&](std::size_t a, std::size_t b) { return rows[a].index < rows[b].index; });
  for (const std::size_t at : by_index) {
    const SweepRow& row = rows[at];
    text += fmt::format("{},{}", row.index, row.simulated() ? std::to_string(rank[at]) : "");
    for (const std::string& value : row.values) text += "," + csv_cell(value);
    for (const double value : row.metrics)
      text += std::isnan(value) ? "," : fmt::format(",{}", value);
    text += fmt::format(",{},{}\n",
                        !row.fits   ? ""
                        : *row.fits ? "yes"
                                    : "no",
                        csv_cell(row.refusal));
  }
  return text;
}

}  // namespace tandem::tools
