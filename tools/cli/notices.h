#pragma once
// What libraries tell people, on stderr.

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace tandem::tools {

inline void print_note(const std::string& line) { fmt::print(stderr, "note: {}\n", line); }

/// Just before the process ends.
inline void print_last_error(const std::string& line) {
  fmt::print(stderr, "error: {}\n", line);
  std::fflush(nullptr);
}

}  // namespace tandem::tools
