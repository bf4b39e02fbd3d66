#include "tools/cli/progress_line.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"

namespace tandem::tools {

namespace {

constexpr std::chrono::seconds kFirst{2}, kBetweenLines{10};
constexpr std::chrono::milliseconds kBetween{200};

}  // namespace

ProgressLine::ProgressLine(std::string command, ProgressShown shown)
    : command_(std::move(command)),
      on_terminal_(progress_is_shown()),
      in_lines_(!on_terminal_ && shown == ProgressShown::anywhere),
      next_(start_ + (on_terminal_ ? kFirst : kBetweenLines)) {}

void ProgressLine::show(UnderWay& under_way) {
  const Clock::time_point now = Clock::now();
  if ((!on_terminal_ && !in_lines_) || now < next_) return;
  under_way.look([&](const std::string& what) { write(what, now); });
}

void ProgressLine::write(const std::string& what, Clock::time_point now) {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
  const std::string text = fmt::format("tandem {}: {} s, {}", command_, passed, what);
  next_ = now + (on_terminal_ ? kBetween : kBetweenLines);
  written_ = on_terminal_;
  // A line that wraps could not be written over.
  print_as_it_is(stderr, on_terminal_
                             ? "\r\x1b[K" + printable_line(text).substr(0, progress_columns())
                             : printable_line(text) + "\n");
}

void ProgressLine::clear() {
  if (std::exchange(written_, false)) print_as_it_is(stderr, "\r\x1b[K");
}

}  // namespace tandem::tools
