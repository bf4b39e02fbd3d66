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

}  // namespace tandem::tools
