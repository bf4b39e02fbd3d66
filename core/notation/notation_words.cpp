#include "core/notation/notation_words.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/utf8.h"

namespace tandem {

namespace {

constexpr std::size_t kMostDiagnostics = 100;
constexpr std::size_t kLongestCopiedLine = std::size_t{1} << 14;  // each diagnostic has a copy

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

std::optional<OpKind> kind_of_letter(char letter) {
  for (const OpTraits& row : kOpTraits) {
    if (row.notation.size() == 1 && row.notation[0] == letter) return row.kind;
  }
  return std::nullopt;
}

std::string op_letters() {
  std::string text;
  for (const OpTraits& row : kOpTraits) {
    if (!row.notation.empty()) text += fmt::format("{}{}", text.empty() ? "" : " ", row.notation);
  }
  return text;
}

WordReader::WordReader(std::string_view text, std::string_view file) : text_(text), file_(file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets write one
  if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
}

bool WordReader::next_line() {
  if (next_ >= text_.size() || given_up_) return false;
  const std::size_t end = std::min(text_.find('\n', next_), text_.size());
  line_ = text_.substr(next_, end - next_);
  next_ = end + 1;
  at_ = 0;
  ++line_number_;
  // Also where nobody reads on: what follows it is easily overlooked.
  const std::size_t nul = line_.find('\0');
  if (nul < line_.size()) diagnose(line_.substr(nul, 1), "expected text, found a NUL byte");
  return true;
}

bool WordReader::at_end() {
  while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
  return at_ == line_.size();
}

std::string_view WordReader::rest() {
  at_end();
  return line_.substr(at_);
}

std::string_view WordReader::next_word() {
  at_end();
  const std::size_t start = at_;
  while (at_ < line_.size() && !is_blank(line_[at_])) ++at_;
  return line_.substr(start, at_ - start);
}

std::uint32_t WordReader::number(std::string_view digits, std::string_view what,
                                 std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty()) fail(digits, fmt::format("expected {}", what));
  if (stop != end) fail(digits, fmt::format("expected {}, found \"{}\"", what, digits));
  if (error != std::errc{} || value < least || value > most)
    fail(digits, fmt::format("{} must be {} to {}, found {}", what, least, most, digits));
  return value;
}

double WordReader::real(std::string_view word, std::string_view what, double most) {
  const auto number = number_in<double>(word);
  if (!number || !(*number >= 0.0 && *number <= most))
    fail(word, fmt::format("{} must be a number from 0 to {}, found \"{}\"", what, most, word));
  return *number;
}

std::string_view WordReader::take_digits(std::string_view& word) {
  std::size_t count = 0;
  while (count < word.size() && is_digit(word[count])) ++count;
  const std::string_view digits = word.substr(0, count);
  word.remove_prefix(count);
  return digits;
}

void WordReader::diagnose(std::string_view at, std::string message, std::string hint) {
  if (diagnostics_.size() == kMostDiagnostics) {
    given_up_ = true;
    return;
  }
  const auto offset = static_cast<std::size_t>(at.data() - line_.data());
  SourcePlace place{.file = std::string(file_),
                    .line = line_number_,
                    .column = count_characters(line_.substr(0, offset)) + 1,
                    .pointer = "",
                    .source_line = line_.size() > kLongestCopiedLine ? "" : std::string(line_),
                    .width = std::max(1U, count_characters(at))};
  diagnostics_.push_back({std::move(message), std::move(place), std::move(hint)});
}

void WordReader::diagnose(const WordPlace& at, std::string message) {
  const std::string_view line = std::exchange(line_, at.line);
  const std::uint32_t line_number = std::exchange(line_number_, at.line_number);
  diagnose(at.word, std::move(message));
  line_ = line;
  line_number_ = line_number;
}

void WordReader::diagnose_whole_text(std::string message) {
  if (diagnostics_.size() == kMostDiagnostics) return;
  diagnostics_.push_back({.message = std::move(message), .place = {.file = std::string(file_)}});
}

void WordReader::finish() {
  if (has_diagnostic()) throw InputError(std::move(diagnostics_));
}

void WordReader::fail(std::string_view at, std::string message, std::string hint) {
  diagnose(at, std::move(message), std::move(hint));
  throw BadWord{};
}

}  // namespace tandem
