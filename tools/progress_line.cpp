#include "tools/progress_line.h"

#include <atomic>

#include <fmt/format.h>

#include "tools/terminal.h"

namespace tandem::tools {

namespace {

std::atomic<bool> has_the_terminal = false;

}  // namespace

ProgressLine::ProgressLine() : shown_(progress_is_shown() && !has_the_terminal.exchange(true)) {}

ProgressLine::~ProgressLine() {
  if (written_) fmt::print(stderr, "\r\x1b[K");
  if (shown_) has_the_terminal = false;
}

void ProgressLine::show(const std::function<std::string()>& text) {
  constexpr auto kBetween = std::chrono::milliseconds(200);
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < kBetween) return;
  last_ = now;
  written_ = true;
  // A line that wraps could not be written over.
  fmt::print(stderr, "\r\x1b[K{}", text().substr(0, progress_columns()));
}

}  // namespace tandem::tools
