#pragma once
// Shares as people write them.

#include <cmath>
#include <optional>
#include <string_view>

#include "core/base/ascii.h"

namespace tandem {

/// "5%", "0.5%" → 0.05, 0.005. Empty when there is no sign, or no number from 0 on.
inline std::optional<double> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const auto percent = number_in<double>(text);
  if (!percent || !std::isfinite(*percent) || *percent < 0.0) return std::nullopt;
  return *percent / 100.0;
}

}  // namespace tandem
