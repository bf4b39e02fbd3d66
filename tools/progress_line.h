#pragma once
// A line on the terminal that says how far work has come.

#include <chrono>
#include <functional>
#include <string>

namespace tandem::tools {

/// Written over a few times a second, and gone at the end; nothing where stderr is no terminal. Of
/// several that live at once, on whatever threads, the first has the terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `text` is asked only when it is time to show it.
  void show(const std::function<std::string()>& text);

 private:
  const bool shown_;
  bool written_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace tandem::tools
