#include "core/base/error.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/utf8.h"

namespace tandem {
namespace {

constexpr std::size_t kShownColumns = 96;

bool same_letter(char a, char b) { return lower_case(a) == lower_case(b); }

/// Insertions, deletions, substitutions and swaps of neighbours; upper and lower case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

/// Starts a column: what continues a character shares its column, but at the line's beginning.
bool starts_column(std::string_view line, std::size_t at) {
  return at == 0 || !continues_character(line[at]);
}

std::size_t count_columns(std::string_view line) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < line.size(); ++at) count += starts_column(line, at) ? 1u : 0u;
  return count;
}

/// What stands in a column: of what a terminal would obey a mark, as wide.
std::string shown_column(std::string_view character) {
  if (character == "\t") return " ";
  return printable_line(character) == character ? std::string(character) : "?";
}

/// The columns from `first` to before `last`.
std::string shown_columns(std::string_view line, std::size_t first, std::size_t last) {
  std::string text;
  std::size_t begun = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    begun += starts_column(line, at) ? 1u : 0u;
    if (begun > last) break;
    if (begun <= first) continue;
    std::size_t end = at + 1;
    while (end < line.size() && !starts_column(line, end)) ++end;
    text += shown_column(line.substr(at, end - at));
    at = end - 1;
  }
  return text;
}

/// The source line, cut to a window around the culprit where it is long, and the caret below.
std::string picture(const Diagnostic& diagnostic) {
  const std::string_view line = diagnostic.place.source_line;
  const std::size_t columns = count_columns(line);
  const std::size_t column = diagnostic.place.column > 0 ? diagnostic.place.column - 1 : 0;
  std::size_t first = 0, last = columns;
  if (last > kShownColumns) {
    first = column > kShownColumns / 2 ? std::min(column, last) - kShownColumns / 2 : 0;
    last = std::min(last, first + kShownColumns);
  }
  std::string text = "\n";
  if (first > 0) text += "…";
  text += shown_columns(line, first, last);
  if (last < columns) text += "…";

  const std::size_t indent = column - first + (first > 0 ? 1 : 0);
  const std::size_t room = last > column ? last - column : 1;
  const std::size_t width = std::clamp<std::size_t>(diagnostic.place.width, 1, room);
  text += fmt::format("\n{:{}}^{:~<{}}", "", indent, "", width - 1);
  if (!diagnostic.hint.empty()) text += " " + diagnostic.hint;
  return text;
}

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += "\n";
    text += diagnostic.to_string();
  }
  return text;
}

}  // namespace

std::string Diagnostic::to_string() const {
  std::string text;
  if (!place.file.empty()) {
    text = place.file;
    if (place.line > 0) text += fmt::format(":{}", place.line);
    if (place.line > 0 && place.column > 0) text += fmt::format(":{}", place.column);
    text += ": error: ";
  }
  if (!place.pointer.empty()) text += place.pointer + ": ";
  text += message;
  if (!place.source_line.empty()) return text + picture(*this);
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

InputError::InputError(std::string message)
    : InputError(Diagnostic{.message = std::move(message)}) {}

InputError::InputError(Diagnostic diagnostic)
    : InputError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : Error(ExitCode::invalid_input, join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  const std::size_t allowed = std::min<std::size_t>(2, word.size() / 3);
  std::size_t best = allowed + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t lengths_apart = candidate.size() > word.size()
                                          ? candidate.size() - word.size()
                                          : word.size() - candidate.size();
    if (lengths_apart >= best) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_word(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace tandem
