#pragma once
// Text as bytes of UTF-8, and what of it a person may see.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// Of a character that begins before it.
constexpr bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// Characters of valid UTF-8.
std::uint32_t count_characters(std::string_view text);

/// Bytes of the valid UTF-8 character that `text` starts with; 0: it is not valid. REQUIRES: not
/// empty.
std::size_t character_size(std::string_view text);

/// The first byte that is not part of valid UTF-8, or text.size().
std::size_t first_invalid_utf8(std::string_view text);

/// What a terminal would obey, what turns the direction of writing around and bytes that are not
/// UTF-8, written as \u001b, \u202e and \xff: in JSON the first two mean the same as before. Tabs
/// and the ends of lines stay.
std::string printable(std::string_view text);

/// The same of text that is to stay on its line: tabs and ends of lines are written as such, too.
std::string printable_line(std::string_view text);

}  // namespace tandem
