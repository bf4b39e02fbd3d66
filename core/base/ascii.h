#pragma once
// Characters of ASCII, whatever the locale; all others are left as they are.

#include <string>
#include <string_view>

namespace tandem {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_case(c);
  return lower;
}

}  // namespace tandem
