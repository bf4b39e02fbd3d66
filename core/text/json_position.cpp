#include "core/text/json_position.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

constexpr std::size_t kLongestShownLine = 10'000;

/// What isn't ASCII becomes '?'.
std::string ascii_only(std::string_view line) {
  std::string text(line);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; },
      '?');
  return text;
}

}  // namespace

std::uint32_t line_of(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  return static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n')) + 1;
}

SourcePlace place_of(std::string_view text, TextRange range) {
  const std::size_t first = std::min(range.first, text.size());
  const std::string_view before = text.substr(0, first);
  const std::size_t newline = before.rfind('\n');
  const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
  std::size_t line_end = std::min(text.find('\n', line_begin), text.size());
  if (line_end > line_begin && text[line_end - 1] == '\r') --line_end;
  std::string_view line = text.substr(line_begin, line_end - line_begin);
  const bool shown = line.size() <= kLongestShownLine;
  std::string replaced;
  if (shown && first_invalid_utf8(line) < line.size()) {
    replaced = ascii_only(line);
    line = replaced;
  }
  const std::size_t begin = std::min(first - line_begin, line.size());
  const std::size_t end = std::clamp(range.last, line_begin + begin, line_end) - line_begin;
  SourcePlace place;
  place.line = line_of(text, first);
  place.column = count_characters(line.substr(0, begin)) + 1;
  place.width = std::max(1U, count_characters(line.substr(begin, end - begin)));
  if (shown) place.source_line = line;
  return place;
}

SourcePlace locate(const std::string& file, const std::string& text, const std::string& pointer) {
  SourcePlace place;
  try {
    const JsonDocument document(file, text);
    bool exact = false;
    place = place_of(text, document.range(document.find(pointer, exact)));
  } catch (const InputError&) {
    // The text changed since it was read: the pointer alone must do.
  }
  place.file = file;
  place.pointer = pointer;
  return place;
}

}  // namespace tandem
