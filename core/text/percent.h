#pragma once
// Shares as people write them.

#include <optional>
#include <string_view>

namespace tandem {

/// "5%", "0.5%" → 0.05, 0.005. Empty when there is no sign, or no number from 0 on.
std::optional<double> parse_percent(std::string_view text);

}  // namespace tandem
