#pragma once
// What is under way, on stderr.

#include <chrono>
#include <string>

#include "tools/cli/under_way.h"

namespace tandem::tools {

enum class ProgressShown : bool {
  on_terminals,
  anywhere,  // where stderr is no terminal, in lines
};

/// After two seconds "tandem check: 12 s, pricing configurations: 34 of 120": on a terminal a line
/// that is written over and gone at the end; elsewhere, if at all, one each ten seconds.
class ProgressLine {
 public:
  ProgressLine(std::string command, ProgressShown shown);

  /// Where it is time to, and something is under way.
  void show(UnderWay& under_way);
  /// Takes it from the terminal. From a callback of `under_way`, or when nothing is at work.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void write(const std::string& what, Clock::time_point now);

  const std::string command_;
  const bool on_terminal_, in_lines_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
  bool written_ = false;  // on the terminal
};

}  // namespace tandem::tools
