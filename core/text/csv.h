#pragma once
// Text without the blanks around it, and cells of a line of comma-separated values.

#include <string_view>

namespace tandem {

inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return text.substr(text.size());
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// Calls `piece` with each part of `text` between two separators, blanks taken off.
template <class Piece>
void split_cells(std::string_view text, char separator, Piece piece) {
  while (true) {
    const std::size_t end = text.find(separator);
    piece(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace tandem
