#include "core/text/percent.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace tandem {

std::optional<double> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double percent = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(percent) ||
      percent < 0.0)
    return std::nullopt;
  return percent / 100.0;
}

}  // namespace tandem
