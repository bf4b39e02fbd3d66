#include "tools/cli/wrapped_text.h"

#include <algorithm>

namespace tandem::tools {

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;  // of the line that is being made; 0: nothing stands in it yet
  const auto new_line = [&] {
    lines += '\n' + std::string(indent, ' ');
    column = 0;
  };
  const std::size_t room = columns > indent ? columns - indent : 1;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      new_line();
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (column > 0 && column + 1 + word.size() > room) new_line();
    if (column > 0) lines += ' ';
    lines += word;
    column += word.size() + (column > 0 ? 1 : 0);
    at = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  return lines;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+%@-";
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace tandem::tools
