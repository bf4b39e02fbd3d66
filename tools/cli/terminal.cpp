#include "tools/cli/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sys/ioctl.h>
#include <unistd.h>

namespace tandem::tools {

PictureOptions picture_options() {
  PictureOptions options;
  if (isatty(STDOUT_FILENO) == 0) return options;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    options.columns = size.ws_col;
  const char* term = std::getenv("TERM");
  options.color =
      std::getenv("NO_COLOR") == nullptr && term != nullptr && std::strcmp(term, "dumb") != 0;
  return options;
}

std::size_t text_columns() {
  constexpr std::size_t kUsual = 80, kMost = 100;
  winsize size{};
  const bool known =
      isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::min<std::size_t>(size.ws_col, kMost) : kUsual;
}

bool progress_is_shown() { return isatty(STDERR_FILENO) != 0; }

std::size_t progress_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUsual) - 1;
}

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
