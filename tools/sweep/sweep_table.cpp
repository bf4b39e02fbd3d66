#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/memory/reserve.h"
#include "core/text/count_text.h"
#include "tools/cli/json_output.h"
#include "tools/print/words.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

namespace {

/// Configurations that are one plan: what differs between their options changes nothing.
class SweepTwins {
 public:
  /// Refers to `rows`.
  explicit SweepTwins(const std::vector<SweepRow>& rows)
      : rows_(rows), first_(rows.size()), others_(rows.size()) {
    std::iota(first_.begin(), first_.end(), std::size_t{0});
    std::unordered_map<std::uint64_t, std::size_t> known;
    for (std::size_t place = 0; place < rows.size(); ++place) {
      if (!rows[place].simulated()) continue;
      const auto [at, added] = known.emplace(rows[place].plan, place);
      if (added) continue;
      first_[place] = at->second;
      others_[at->second].push_back(place);
      ++folded_;
    }
  }

  /// The place of the first configuration that is the plan of the row at `place`.
  std::size_t first(std::size_t place) const { return first_[place]; }
  bool is_first(std::size_t place) const { return first_[place] == place; }
  /// Rows that are not the first.
  std::size_t folded() const { return folded_; }
  /// What an axis has in all that are the plan of a first one: "none = selective".
  std::string values(std::size_t place, std::size_t axis) const {
    std::vector<std::string> values{rows_[place].values[axis]};
    for (const std::size_t other : others_[place]) {
      const std::string& value = rows_[other].values[axis];
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i)
      text += (i == 0 ? "" : " = ") + printable_line(values[i]);
    return values.size() > kMost ? text + " = …" : text;
  }

 private:
  const std::vector<SweepRow>& rows_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::size_t>> others_;  // of each first one, by index
  std::size_t folded_ = 0;
};

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
    return std::ranges::any_of(
        rows, [&](const SweepRow& row) { return !std::isnan(row.metrics[metric]); });
  };
  const bool bytes = known(sweep_metric("memory"));
  for (const char* name : {"throughput", "flops", "period", "bubble", "memory", "activations"}) {
    const std::size_t metric = sweep_metric(name);
    const bool second_choice = bytes && std::string_view(name) == "activations";
    if (metric != ranks && !second_choice && known(metric)) shown.push_back(metric);
  }
  return shown;
}

/// What the shape says of each row, whether it was given or chosen.
bool is_of_shape(const std::string& axis) {
  constexpr std::string_view kOptions[] = {"tensor", "depth", "width", "devices"};
  return std::find(std::begin(kOptions), std::end(kOptions), axis) != std::end(kOptions);
}

Column shape_column(const std::vector<SweepRow>& rows, const std::vector<std::size_t>& order) {
  const bool tensor =
      std::ranges::any_of(order, [&](std::size_t at) { return rows[at].shape.tensor > 0; });
  Column column{tensor ? "tensor x depth x width" : "depth x width", true};
  for (const std::size_t at : order) {
    const SweepShape& shape = rows[at].shape;
    std::string cell = fmt::format("{} x {}", shape.depth, shape.width);
    if (tensor) cell = fmt::format("{} x {}", std::max<std::int64_t>(1, shape.tensor), cell);
    column.cells.push_back(shape.depth == 0 ? "" : cell);
  }
  return column;
}

bool is_vanilla(const SweepRow& row) {
  return row.weights.value_or(WeightSemantics::vanilla) == WeightSemantics::vanilla;
}

std::vector<Column> columns_of(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                               const std::vector<std::size_t>& order, std::size_t metric,
                               const SweepTwins& twins) {
  std::vector<Column> columns;
  const auto add = [&](Column column, const auto& cell) {
    for (const std::size_t at : order) column.cells.push_back(cell(at));
    columns.push_back(std::move(column));
  };
  std::size_t rank = 0;
  add({"#"}, [&](std::size_t) { return std::to_string(++rank); });
  for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
    if (!is_of_shape(sweep.axes[axis]))
      add({sweep.axes[axis], true}, [&](std::size_t at) { return twins.values(at, axis); });
  }
  columns.push_back(shape_column(rows, order));
  if (!std::ranges::all_of(order, [&](std::size_t at) { return is_vanilla(rows[at]); }))
    add({"weights", true}, [&](std::size_t at) {
      return std::string(short_name(rows[at].weights.value_or(WeightSemantics::vanilla)));
    });
  for (const std::size_t one : shown_metrics(rows, metric)) {
    add({std::string(sweep_metrics()[one].title)}, [&](std::size_t at) {
      const double value = rows[at].metrics[one];
      return std::isnan(value) ? std::string() : sweep_metrics()[one].print(value);
    });
  }
  if (std::ranges::any_of(rows, [](const SweepRow& row) { return row.fits.has_value(); })) {
    add({"fits", true}, [&](std::size_t at) -> std::string {
      return !rows[at].fits ? "" : *rows[at].fits ? "yes" : "NO";
    });
  }
  return columns;
}

/// What the weights of those that are shown mean, where they are not vanilla.
std::string weight_notes(const std::vector<SweepRow>& rows, const std::vector<std::size_t>& order) {
  std::string notes;
  for (std::size_t i = 0; i < kWeightSemantics; ++i) {
    const auto weights = static_cast<WeightSemantics>(i);
    if (std::ranges::any_of(order, [&](std::size_t at) { return rows[at].weights == weights; }))
      notes += weights_note(weights);
  }
  return notes;
}

/// Its first line, without the command that nobody gave.
std::string reason_of(const SweepRow& row) {
  constexpr std::string_view kCommand = "tandem simulate: ";
  std::string_view reason = row.refusal;
  if (reason.starts_with(kCommand)) reason.remove_prefix(kCommand.size());
  return printable_line(reason.substr(0, reason.find('\n')));
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
    if (row.simulated() || row.impossible) continue;
    std::string text = reason_of(row);
    const auto [at, added] = known.emplace(text, reasons.size());
    if (added) reasons.push_back({std::move(text), &row});
    ++reasons[at->second].count;
  }
  std::ranges::stable_sort(reasons, std::ranges::greater{}, &Reason::count);
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

/// "…, of which 12 fit (--fits-by framework) with 6 % of a device's memory in reserve"; empty:
/// nothing is known of it.
std::string fitting(const std::vector<SweepRow>& rows) {
  std::size_t fit = 0;
  std::set<std::string> reserves, figures;
  for (const SweepRow& row : rows) {
    if (!row.fits) continue;
    fit += *row.fits ? 1 : 0;
    reserves.insert(row.reserve);
    figures.insert(row.fits_by);
  }
  if (reserves.empty()) return {};
  const std::string& reserve = *reserves.begin();
  const bool said = reserves.size() == 1 && reserve != describe(Reserve{}) && !reserve.empty();
  const bool by = figures.size() == 1 && !figures.begin()->empty();
  return fmt::format(", of which {} fit{}{}", fit,
                     by ? fmt::format(" (--fits-by {})", *figures.begin()) : "",
                     said ? fmt::format(" with {} in reserve", reserve) : "");
}

std::string summary(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                    const SweepTwins& twins) {
  std::size_t simulated = 0, impossible = 0;
  const SweepRow* first = nullptr;  // of those that are impossible
  for (const SweepRow& row : rows) {
    simulated += row.simulated() ? 1 : 0;
    if (!row.impossible) continue;
    if (impossible++ == 0) first = &row;
  }
  std::string all = counted(sweep.configurations, "configuration");
  if (rows.size() != sweep.configurations) all = fmt::format("{} of {}", rows.size(), all);
  std::string text = fmt::format("{}: {} simulated{}, {} refused", all, simulated, fitting(rows),
                                 rows.size() - simulated - impossible);
  if (impossible > 0)
    text += fmt::format(", {} (such as {})", counted(impossible, "impossible shape"),
                        reason_of(*first));
  text += "\n";
  if (twins.folded() > 0) {
    text += fmt::format(
        "{} of them {} the same plan as another one, to the last figure, and share{} its row: = "
        "joins their values\n",
        twins.folded(), twins.folded() == 1 ? "is" : "are", twins.folded() == 1 ? "s" : "");
  }
  return text;
}

}  // namespace

std::string sweep_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                        std::size_t metric, std::size_t top) {
  const SweepTwins twins(rows);
  std::string text = summary(sweep, rows, twins);
  std::vector<std::size_t> order = ranking(rows, metric);
  std::erase_if(order,
                [&](std::size_t at) { return !rows[at].simulated() || !twins.is_first(at); });
  if (!order.empty() && std::isnan(rows[order.front()].metrics[metric]))
    text += fmt::format("no configuration has a {} figure: rows keep their order\n",
                        sweep_metrics()[metric].name);
  const std::vector<std::size_t> all = order;
  order.resize(std::min(top, all.size()));
  if (!order.empty()) text += "\n" + lines_of(columns_of(sweep, rows, order, metric, twins));
  if (!order.empty() && order.size() < all.size())
    text += fmt::format("and {} more\n", all.size() - order.size());
  text += weight_notes(rows, order);
  text += refusals(sweep, rows);
  if (order.empty()) return text;
  text += fmt::format("\nto run row 1: {}\n", printable_line(rows[order.front()].command));
  const auto vanilla =
      std::ranges::find_if(all, [&](std::size_t at) { return is_vanilla(rows[at]); });
  if (vanilla != all.begin() && vanilla != all.end())
    text += fmt::format("to run the first vanilla row, {}: {}\n", vanilla - all.begin() + 1,
                        printable_line(rows[*vanilla].command));
  return text;
}

std::string sweep_csv(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                      std::size_t metric) {
  const SweepTwins twins(rows);
  std::string text = "index,rank";
  for (const std::string& axis : sweep.axes) text += "," + csv_cell(axis);
  for (std::size_t one = 0; one < sweep_metrics().size(); ++one)
    text += fmt::format(",{}", sweep_metrics()[one].key);
  text += ",fits,refused";
  std::vector<std::int64_t SweepShape::*> shapes;  // that no axis says
  for (const auto& [name, member] :
       {std::pair("tensor", &SweepShape::tensor), std::pair("depth", &SweepShape::depth),
        std::pair("width", &SweepShape::width)}) {
    if (std::ranges::find(sweep.axes, name) != sweep.axes.end()) continue;
    text += fmt::format(",{}", name);
    shapes.push_back(member);
  }
  text += ",semantics,same_plan_as,impossible_shape\n";
  std::vector<std::size_t> rank(rows.size());
  std::size_t ranked = 0;
  for (const std::size_t at : ranking(rows, metric)) {
    if (rows[at].simulated() && twins.is_first(at)) rank[at] = ++ranked;
  }
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const SweepRow& row = rows[at];
    text += fmt::format("{},{}", row.index,
                        row.simulated() ? std::to_string(rank[twins.first(at)]) : "");
    for (const std::string& value : row.values) text += "," + csv_cell(value);
    for (const double value : row.metrics)
      text += std::isnan(value) ? "," : fmt::format(",{}", value);
    text += fmt::format(",{},{}", !row.fits ? "" : *row.fits ? "yes" : "no", csv_cell(row.refusal));
    for (const auto member : shapes)
      text += row.shape.*member == 0 ? "," : fmt::format(",{}", row.shape.*member);
    text += fmt::format(",{},{},{}\n", row.weights ? name(*row.weights) : "",
                        twins.is_first(at) ? "" : std::to_string(rows[twins.first(at)].index),
                        row.impossible ? "yes" : "");
  }
  return text;
}

}  // namespace tandem::tools
