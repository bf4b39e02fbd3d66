#include "core/base/utf8.h"

#include <algorithm>

#include <fmt/format.h>

namespace tandem {
namespace {

bool in_range(char c, unsigned low, unsigned high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

std::uint32_t code_point(std::string_view character) {
  constexpr unsigned kHeads[] = {0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(character[0]) & kHeads[character.size() - 1];
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned>(c) & 0x3FU);
  return code;
}

/// Controls of both sets, marks and overrides of the direction of writing, separators of lines, and
/// what is no character.
bool is_obeyed(std::uint32_t code) {
  const auto within = [code](std::uint32_t low, std::uint32_t high) {
    return code >= low && code <= high;
  };
  return code < 0x20 || within(0x7F, 0x9F) || code == 0x061C || within(0x200E, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2066, 0x2069) || within(0xFFFE, 0xFFFF);
}

std::string escaped(std::string_view text, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view character = text.substr(0, size);
    if (size == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (is_obeyed(code_point(character)) && kept.find(character) == kept.npos) {
      shown += fmt::format("\\u{:04x}", code_point(character));
    } else {
      shown += character;
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return shown;
}

}  // namespace

std::uint32_t count_characters(std::string_view text) {
  return static_cast<std::uint32_t>(
      text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_character)));
}

std::size_t character_size(std::string_view text) {
  const char head = text.front();
  if (in_range(head, 0x00, 0x7F)) return 1;
  // Of the second byte a narrower range: no overlong forms, no surrogates, nothing beyond U+10FFFF.
  std::size_t size = 0;
  unsigned low = 0x80, high = 0xBF;
  if (in_range(head, 0xC2, 0xDF)) size = 2;
  if (in_range(head, 0xE0, 0xEF)) size = 3;
  if (in_range(head, 0xF0, 0xF4)) size = 4;
  if (in_range(head, 0xE0, 0xE0)) low = 0xA0;
  if (in_range(head, 0xED, 0xED)) high = 0x9F;
  if (in_range(head, 0xF0, 0xF0)) low = 0x90;
  if (in_range(head, 0xF4, 0xF4)) high = 0x8F;
  if (size == 0 || text.size() < size || !in_range(text[1], low, high)) return 0;
  for (const char c : text.substr(2, size - 2)) {
    if (!in_range(c, 0x80, 0xBF)) return 0;
  }
  return size;
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t size = character_size(text.substr(position));
    if (size == 0) return position;
    position += size;
  }
  return position;
}

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }

std::string printable_line(std::string_view text) { return escaped(text, ""); }

}  // namespace tandem
