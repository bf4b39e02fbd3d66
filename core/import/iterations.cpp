#include "core/import/iterations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/notation/notation_words.h"
#include "core/text/csv.h"
#include "core/text/files.h"

namespace tandem {

namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::uint32_t kMostRunDevices = 16'384, kMostRunMicrobatches = 65'535;
constexpr double kShortestIteration = 1e-3, kLongestIteration = 86'400e3;  // milliseconds
constexpr std::uint32_t kVocabulary = 50'257;                              // of GPT-2

enum class Column : std::uint8_t {
  devices,
  global_batch,
  microbatch_size,
  hidden,
  heads,
  blocks,
  sequence,
  vocabulary,
  tensor,
  width,
  depth,
  schedule,
  recompute,
  time,
  parameters,
};

struct ColumnName {
  Column column;
  std::string_view name, of_vtrain;
  bool required = true;
  std::uint32_t most = 0;  // of an integer
};
constexpr std::array kColumnNames{
    ColumnName{Column::devices, "devices", "# GPUs", false, kMostRunDevices},
    ColumnName{Column::global_batch, "global_batch", "global batch", true, 1'000'000'000},
    ColumnName{Column::microbatch_size, "microbatch_size", "micro batch", true, 1'000'000},
    ColumnName{Column::hidden, "hidden", "hidden size", true, 1'048'576},
    ColumnName{Column::heads, "heads", "attention heads", true, 1'048'576},
    ColumnName{Column::blocks, "blocks", "# layers", true, 10'000},
    ColumnName{Column::sequence, "sequence", "sequence length", true, 1'048'576},
    ColumnName{Column::vocabulary, "vocabulary", "", false, 16'777'216},
    ColumnName{Column::tensor, "tensor", "tensor parallelism", true, kMostRunDevices},
    ColumnName{Column::width, "width", "data parallelism", true, kMostRunDevices},
    ColumnName{Column::depth, "depth", "pipeline parallelism", true, 1024},
    ColumnName{Column::schedule, "schedule", "", false},
    ColumnName{Column::recompute, "recompute", "", false},
    ColumnName{Column::time, "time_ms", "iteration time (ms)"},
    // Says nothing that the shapes don't.
    ColumnName{Column::parameters, "parameters", "Parameters (billion)", false},
};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  split_cells(line, ',', [&](std::string_view cell) { cells.push_back(cell); });
  return cells;
}

class IterationsParser {
 public:
  IterationsParser(std::string_view text, std::string_view file, Recompute unsaid)
      : in_(text, file), unsaid_(unsaid) {}

  std::vector<MeasuredIteration> rows() {
    if (read_names()) {
      in_.each_line([this] {
        if (!trimmed(in_.line()).empty()) rows_.push_back(read_row());
      });
      if (rows_.empty() && !in_.has_diagnostic())
        in_.diagnose_whole_text("no rows: expected at least one under the column names");
    }
    in_.finish();
    return std::move(rows_);
  }

 private:
  bool read_names() {
    if (!in_.next_line()) {
      in_.diagnose_whole_text("no column names");
      return false;
    }
    for (const std::string_view cell : cells_of(in_.line())) read_name(cell);
    for (const ColumnName& one : kColumnNames) {
      if (one.required && !place_.contains(one.column))
        in_.diagnose(
            in_.line(),
            fmt::format("no column {}{}", one.name,
                        one.of_vtrain.empty() ? "" : fmt::format(" (\"{}\")", one.of_vtrain)));
    }
    return !in_.has_diagnostic();
  }

  void read_name(std::string_view cell) {
    const auto known =
        std::find_if(kColumnNames.begin(), kColumnNames.end(), [&](const ColumnName& one) {
          return cell == one.name || (!one.of_vtrain.empty() && cell == one.of_vtrain);
        });
    if (known == kColumnNames.end()) {
      in_.diagnose(cell, fmt::format("unknown column \"{}\"", cell));
    } else if (!place_.try_emplace(known->column, columns_).second) {
      in_.diagnose(cell, fmt::format("column {} a second time", known->name));
    }
    ++columns_;
  }

  std::optional<std::string_view> cell(Column column) const {
    const auto found = place_.find(column);
    if (found == place_.end()) return std::nullopt;
    return cells_[found->second];
  }

  std::int32_t integer(Column column, std::uint32_t otherwise = 0) {
    const auto text = cell(column);
    const ColumnName& named = kColumnNames[static_cast<std::size_t>(column)];
    const std::uint32_t value = text ? in_.number(*text, named.name, 1, named.most) : otherwise;
    return static_cast<std::int32_t>(value);
  }

  Duration time() {
    const std::string_view text = *cell(Column::time);
    const auto milliseconds = number_in<double>(text);
    if (milliseconds && *milliseconds >= kShortestIteration && *milliseconds <= kLongestIteration)
      return Duration(std::llround(*milliseconds * 1e6));
    in_.fail(text, fmt::format("expected milliseconds above 0, found \"{}\"", text));
  }

  std::string schedule() {
    const auto text = cell(Column::schedule);
    if (!text) return std::string(plain_schedule().name);
    for (const ScheduleTraits& traits : schedules()) {
      if (traits.name != *text) continue;
      if (!traits.orders_by_costs && traits.updates_together) return std::string(*text);
    }
    in_.fail(*text, fmt::format("expected a schedule that is ordered by no costs and updates all "
                                "stages together, found \"{}\"",
                                *text));
  }

  Recompute recompute() {
    const auto text = cell(Column::recompute);
    if (!text) return unsaid_;
    if (const auto kind = parse_recompute(*text)) return *kind;
    in_.fail(*text, fmt::format("expected {}, found \"{}\"", kRecomputeNames, *text));
  }

  /// What `part` is to divide `whole`, both of them columns.
  void check_divides(Column part, std::int64_t divisor, Column whole, std::int64_t value) {
    if (value % divisor == 0) return;
    in_.fail(*cell(whole), fmt::format("{} {}: expected a multiple of {} {}",
                                       kColumnNames[static_cast<std::size_t>(whole)].name, value,
                                       kColumnNames[static_cast<std::size_t>(part)].name, divisor));
  }

  MeasuredIteration read_row() {
    cells_ = cells_of(in_.line());
    if (cells_.size() != columns_)
      in_.fail(in_.line(), fmt::format("{} cells: expected {}", cells_.size(), columns_));
    MeasuredIteration row;
    row.model.blocks = integer(Column::blocks);
    row.model.width = integer(Column::hidden);
    row.model.heads = integer(Column::heads);
    row.model.sequence = integer(Column::sequence);
    row.model.vocabulary = integer(Column::vocabulary, kVocabulary);
    row.tensor = integer(Column::tensor);
    row.width = integer(Column::width);
    row.depth = integer(Column::depth);
    row.microbatch_size = integer(Column::microbatch_size);
    row.schedule = schedule();
    row.recompute = recompute();
    row.time = time();
    check_divides(Column::heads, row.model.heads, Column::hidden, row.model.width);
    check_divides(Column::tensor, row.tensor, Column::heads, row.model.heads);
    check_divides(Column::depth, row.depth, Column::blocks, row.model.blocks);
    const std::int64_t batch = integer(Column::global_batch);
    const std::int64_t at_once = std::int64_t{row.width} * row.microbatch_size;
    if (batch % at_once != 0 || batch / at_once > kMostRunMicrobatches) {
      in_.fail(*cell(Column::global_batch),
               fmt::format("a batch of {} is not 1 to {} times {} pipelines of microbatches of {}",
                           batch, kMostRunMicrobatches, row.width, row.microbatch_size));
    }
    row.microbatches = static_cast<std::int32_t>(batch / at_once);
    if (cell(Column::devices) && integer(Column::devices) != row.devices())
      in_.fail(*cell(Column::devices),
               fmt::format("{} devices: expected tensor x width x depth, {}",
                           *cell(Column::devices), row.devices()));
    return row;
  }

  WordReader in_;
  Recompute unsaid_;                     // of rows that don't say
  std::map<Column, std::size_t> place_;  // of a column in a row
  std::size_t columns_ = 0;
  std::vector<std::string_view> cells_;
  std::vector<MeasuredIteration> rows_;
};

}  // namespace

std::vector<MeasuredIteration> parse_iterations(std::string_view text, std::string_view file,
                                                Recompute unsaid) {
  return IterationsParser(text, file, unsaid).rows();
}

std::vector<MeasuredIteration> read_iterations(const std::string& path, Recompute unsaid) {
  return parse_iterations(read_file(path, kLargestFile), path, unsaid);
}

}  // namespace tandem
