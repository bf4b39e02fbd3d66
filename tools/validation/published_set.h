#pragma once
// PublishedSet: figures of a paper or a log, and the commands that predict them (tests/published).

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tandem::tools {

/// One figure and the command line that predicts it.
struct PublishedRow {
  std::string name;
  double published = 0.0;
  std::string options;                   // behind those of the set
  std::optional<std::string> over = {};  // of another prediction, by which it is divided
  double error_percent = 0.0;            // of the prediction, as it was recorded
};

/// Rows that one command prints, each beside what was measured.
struct PublishedTable {
  std::string rows;                           // an array of its JSON
  std::string measured;                       // a key of a row
  std::optional<std::string> predicted = {};  // a key; empty: by `error`,
  std::optional<std::string> error = {};      // of prediction over measurement, less 1; may be null
  double median_percent = 0.0, worst_percent = 0.0;  // of absolute errors, as recorded
};

struct PublishedSet {
  std::string name, title, source;
  std::string quantity;   // what the figures are
  std::string constants;  // by which it is predicted, and what they are from
  std::string held_out;   // which rows no constant was fitted to
  /// Words of `tandem` without its name. {folder} is where `files` are, {data} what TANDEM_DATA
  /// names.
  std::string command;
  std::map<std::string, std::string> files;  // text by name
  /// Of rows: where the prediction stands in the command's JSON, a pointer whose `*` is the largest
  /// of an array; it is multiplied by `scale`, or is `one_less`: 1 less it.
  std::string figure;
  double scale = 1.0;
  bool one_less = false;
  std::variant<std::vector<PublishedRow>, PublishedTable> content;

  bool needs_data() const { return command.find("{data}") != std::string::npos; }
};

/// Those that are part of the program, by name. Read once, at the first call.
const std::vector<PublishedSet>& published_sets();

/// Throws InputError with each place that is wrong.
PublishedSet parse_published_set(const std::string& file, std::string text);

}  // namespace tandem::tools
