#include "core/schedule/slicing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"

namespace tandem {

static constexpr std::string_view kByWork = "by-work:", kByTime = "by-time";
static constexpr std::int32_t kMostSlices = 65'535;

Slicing Slicing::of_lengths(std::vector<std::int32_t> lengths) {
  return {Kind::given, static_cast<std::int32_t>(lengths.size()), std::move(lengths)};
}

std::string name(const Slicing& slicing) {
  switch (slicing.kind) {
    case Slicing::Kind::equal:
      return fmt::format("{}", slicing.count);
    case Slicing::Kind::by_work:
      return fmt::format("{}{}", kByWork, slicing.count);
    case Slicing::Kind::by_time:
      return std::string(kByTime);
    case Slicing::Kind::given:
      break;
  }
  return fmt::format("{}", fmt::join(slicing.lengths, ","));
}

static std::optional<std::int32_t> count_in(std::string_view text) {
  const auto count = number_in<std::int32_t>(text);
  return count && *count > 0 && *count <= kMostSlices ? count : std::nullopt;
}

std::optional<Slicing> parse_slicing(std::string_view text) {
  if (text == kByTime) return Slicing{Slicing::Kind::by_time, 0};
  const bool by_work = text.starts_with(kByWork);
  if (by_work) text.remove_prefix(kByWork.size());
  if (const auto count = count_in(text))
    return Slicing{by_work ? Slicing::Kind::by_work : Slicing::Kind::equal, *count};
  if (by_work) return std::nullopt;
  std::vector<std::int32_t> lengths;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto tokens = number_in<std::int32_t>(text.substr(0, end));
    if (!tokens || *tokens < 1 || lengths.size() == kMostSlices) return std::nullopt;
    lengths.push_back(*tokens);
    if (end == text.size()) return Slicing::of_lengths(std::move(lengths));
    text.remove_prefix(end + 1);
  }
}

}  // namespace tandem
