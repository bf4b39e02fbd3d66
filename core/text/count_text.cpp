#include "core/text/count_text.h"

#include <array>

#include <fmt/format.h>

namespace tandem {

std::string print_count(std::int64_t count) {
  struct Step {
    double size;
    const char* name;
  };
  constexpr std::array<Step, 4> kSteps{{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}};
  const auto value = static_cast<double>(count);
  for (const Step& step : kSteps) {
    // What rounds up to a step is printed in it.
    if (value >= 0.99995 * step.size) return fmt::format("{:.4g} {}", value / step.size, step.name);
  }
  return fmt::format("{}", count);
}

std::string counted(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const bool hisses = noun.ends_with("ch") || noun.ends_with("sh") || noun.ends_with('s');
  if (hisses) return fmt::format("{} {}es", count, noun);
  if (noun.ends_with("ry")) {
    noun.remove_suffix(1);
    return fmt::format("{} {}ies", count, noun);
  }
  return fmt::format("{} {}s", count, noun);
}

}  // namespace tandem
