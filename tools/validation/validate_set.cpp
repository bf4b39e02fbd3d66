#include "tools/validation/validate_set.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tools/cli/memory_folder.h"
#include "tools/cli/split.h"

namespace tandem::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kTolerance = 0.1;  // percent: processors round differently

std::string with_part(std::string text, std::string_view part, const std::string& instead) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += instead.size())
    text.replace(at, part.size(), instead);
  return text;
}

/// What a pointer with at most one `*` names; of an array the largest.
double figure_of(const Json& json, const std::string& pointer) {
  const std::size_t star = pointer.find("/*");
  if (star == std::string::npos) return json.at(Json::json_pointer(pointer)).get<double>();
  double most = 0.0;
  for (const Json& one : json.at(Json::json_pointer(pointer.substr(0, star))))
    most = std::max(most, one.at(Json::json_pointer(pointer.substr(star + 2))).get<double>());
  return most;
}

void judge(ComparedSet& compared, const std::string& what, double error, double recorded) {
  const auto words = [&] {
    return fmt::format("{}, {}: {:+.1f} %, recorded {:+.1f} %", compared.set->name, what, error,
                       recorded);
  };
  if (std::abs(error) > std::abs(recorded) + kTolerance)
    compared.worse.push_back(words());
  else if (std::abs(error) < std::abs(recorded) - kTolerance)
    compared.better.push_back(words());
}

/// One set under comparison.
class SetComparison {
 public:
  SetComparison(const PublishedSet& set, const RunTandem& run, const std::string& data)
      : set_(set), run_(run), data_(data) {
    if (set.files.empty()) return;
    folder_.emplace();
    for (const auto& [name, text] : set.files) write_file(folder_->path() + "/" + name, text);
  }

  ComparedSet compare() {
    ComparedSet compared{.set = &set_, .rows = {}};
    if (const auto* table = std::get_if<PublishedTable>(&set_.content)) {
      compared.rows = rows_of(*table);
    } else {
      for (const PublishedRow& row : std::get<std::vector<PublishedRow>>(set_.content))
        compared.rows.push_back(compared_row(row));
    }
    summarize(compared);
    return compared;
  }

 private:
  /// Of the set's command with these options; folders may have spaces in their names.
  Json printed_by(const std::string& options) const {
    const std::string line = set_.command + " " + options;
    std::vector<std::string> words;
    for (const std::string_view word : split(line, " ")) {
      if (word.empty()) continue;
      words.push_back(with_part(std::string(word), "{data}", data_));
      if (folder_) words.back() = with_part(words.back(), "{folder}", folder_->path());
    }
    return run_(words);
  }

  std::vector<ComparedRow> rows_of(const PublishedTable& table) const {
    std::vector<ComparedRow> rows;
    const Json printed = printed_by("");
    for (const Json& row : printed.at(Json::json_pointer(table.rows))) {
      const double measured = row.at(table.measured).get<double>();
      const Json& found = row.at(table.predicted ? *table.predicted : *table.error);
      if (found.is_null()) continue;  // no constants but its own predict it
      const auto number = found.get<double>();
      rows.push_back({.name = {},
                      .published = measured,
                      .predicted = table.predicted ? number : measured * (1.0 + number)});
    }
    return rows;
  }

  ComparedRow compared_row(const PublishedRow& row) const {
    const auto figure = [&](const std::string& options) {
      const double value = figure_of(printed_by(options), set_.figure);
      return set_.one_less ? 1.0 - value : set_.scale * value;
    };
    const double predicted = figure(row.options);
    return {.name = row.name,
            .published = row.published,
            .predicted = row.over ? predicted / figure(*row.over) : predicted};
  }

  void summarize(ComparedSet& compared) const {
    std::vector<double> errors, predicted, published;
    for (const ComparedRow& row : compared.rows) {
      errors.push_back(row.error());
      predicted.push_back(row.predicted);
      published.push_back(row.published);
    }
    compared.errors = summary_of(errors);
    compared.rank_correlation = rank_correlation(predicted, published);
    if (const auto* table = std::get_if<PublishedTable>(&set_.content)) {
      judge(compared, "median", 100 * compared.errors.median, table->median_percent);
      judge(compared, "worst", 100 * std::abs(compared.errors.worst), table->worst_percent);
      return;
    }
    const auto& rows = std::get<std::vector<PublishedRow>>(set_.content);
    for (std::size_t i = 0; i < rows.size(); ++i)
      judge(compared, rows[i].name, 100 * errors[i], rows[i].error_percent);
  }

  const PublishedSet& set_;
  const RunTandem& run_;
  const std::string data_;
  std::optional<MemoryFolder> folder_;
};

}  // namespace

ComparedSet compare_set(const PublishedSet& set, const RunTandem& run, const std::string& data) {
  if (set.needs_data() && data.empty())
    return {.set = &set, .rows = {}, .not_compared = "TANDEM_DATA names no folder of its rows"};
  return SetComparison(set, run, data).compare();
}

}  // namespace tandem::tools
