#pragma once
// TANDEM_CHECK: a programmer's error, on in release builds too. Prints the expression and the
// values, aborts. User errors are never checked with it: they are thrown (core/base/error.h).

#include <string>

#include <fmt/format.h>

namespace tandem::detail {

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& values);

template <class... Values>
std::string print_values(const Values&... values) {
  std::string text;
  ((text += fmt::format(" {}", values)), ...);
  return text;
}

}  // namespace tandem::detail

#define TANDEM_CHECK(expression, ...)                                              \
  do {                                                                             \
    if (!(expression)) [[unlikely]] {                                              \
      ::tandem::detail::check_failed(#expression, __FILE__, __LINE__,              \
                                     ::tandem::detail::print_values(__VA_ARGS__)); \
    }                                                                              \
  } while (false)
