#pragma once
// From bytes of a text to the line, column and caret of an error. Used only when failing.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace tandem {

/// Bytes [first, last) of a text.
struct TextRange {
  std::size_t first = 0, last = 0;
};

/// The line of a byte, from 1.
std::uint32_t line_of(std::string_view text, std::size_t position);

/// Where `range` lies: line, column, width and source line; `file` and `pointer` are left to the
/// caller. Columns and widths count characters, not bytes; a range of several lines ends at its
/// first. The source line is valid UTF-8, and left out where it is so long that only a machine
/// wrote it.
SourcePlace place_of(std::string_view text, TextRange range);

/// The same for the value that a JSON pointer names, for diagnostics made after a file was read.
/// Where there is no such value: the deepest one on the way to it. Where the text isn't JSON: line
/// 0.
SourcePlace locate(const std::string& file, const std::string& text, const std::string& pointer);

}  // namespace tandem
