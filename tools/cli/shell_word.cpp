#include "tools/cli/shell_word.h"

#include <string_view>

namespace tandem::tools {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+%@-";
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace tandem::tools
