#include "core/text/percent.h"

#include <cmath>

#include "core/base/ascii.h"

namespace tandem {

std::optional<double> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const auto percent = number_in<double>(text);
  if (!percent || !std::isfinite(*percent) || *percent < 0.0) return std::nullopt;
  return *percent / 100.0;
}

}  // namespace tandem
