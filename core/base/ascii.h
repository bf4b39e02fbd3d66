#pragma once
// Characters of ASCII, whatever the locale; all others are left as they are.

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace tandem {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Where text that is to stay on its line leaves it: its first U+0000 or line break; npos: nowhere.
constexpr std::size_t end_of_line(std::string_view text) {
  return text.find_first_of(std::string_view("\0\n\r", 3));
}

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_case(c);
  return lower;
}

/// All of `text` as a number; nothing where it is none, or one that Number does not hold. `how`: as
/// std::from_chars() takes it.
template <class Number, class... How>
std::optional<Number> number_in(std::string_view text, How... how) {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, how...);
  return error == std::errc{} && end == last ? std::optional(number) : std::nullopt;
}

}  // namespace tandem
