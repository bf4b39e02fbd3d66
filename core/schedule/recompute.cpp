#include "core/schedule/recompute.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/base/ascii.h"

namespace tandem {

namespace {

constexpr std::array<std::pair<std::string_view, Recompute>, 4> kNamed{
    {{"none", Recompute::none},
     {"selective", Recompute::selective},
     {"full", Recompute::full},
     {"stage", Recompute::stage}}};
constexpr std::array<std::pair<std::string_view, Recompute::Kind>, 2> kCounted{
    {{"uniform:", Recompute::Kind::uniform}, {"blocks:", Recompute::Kind::blocks}}};

}  // namespace

std::string name(Recompute recompute) {
  for (const auto& [name, kind] : kNamed) {
    if (recompute == kind) return std::string(name);
  }
  const std::string_view prefix = kCounted[recompute.kind == Recompute::Kind::blocks].first;
  return fmt::format("{}{}", prefix, recompute.count);
}

std::optional<Recompute> parse_recompute(std::string_view text) {
  for (const auto& [name, recompute] : kNamed) {
    if (text == name) return recompute;
  }
  for (const auto& [prefix, kind] : kCounted) {
    if (!text.starts_with(prefix)) continue;
    const auto count = number_in<std::uint16_t>(text.substr(prefix.size()));
    if (count && *count > 0) return Recompute{kind, *count};
  }
  return std::nullopt;
}

}  // namespace tandem
