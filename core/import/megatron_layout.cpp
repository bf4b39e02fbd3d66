#include "core/import/megatron_layout.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace tandem {

namespace {

constexpr std::size_t kLongestLayout = 1 << 16;

/// The number behind a "*" at `at`, which is moved behind it; 0: there is none.
std::size_t count_at(std::string_view text, std::size_t& at) {
  std::size_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + at + 1, end, count);
  if (error != std::errc{}) return 0;
  at = static_cast<std::size_t>(after - text.data());
  return count;
}

/// `unit` so many times behind `to`; false: too long.
bool repeat(std::string_view unit, std::size_t count, std::string& to) {
  if (count == 0 || unit.size() * count + to.size() > kLongestLayout) return false;
  for (std::size_t i = 0; i < count; ++i) to += unit;
  return true;
}

/// "(tt|)*2" written out: first brackets, then single letters, as it is read there.
std::optional<std::string> without_brackets(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '(') {
      if (text[at] != ',') out += text[at];
      ++at;
      continue;
    }
    const std::size_t close = text.find(')', at);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view unit = text.substr(at + 1, close - at - 1);
    at = close + 1;
    std::size_t count = 1;
    if (at < text.size() && text[at] == '*') count = count_at(text, at);
    if (!repeat(unit, count, out)) return std::nullopt;
  }
  return out;
}

std::optional<std::string> written_out(std::string_view text) {
  const std::optional<std::string> flat = without_brackets(text);
  if (!flat) return std::nullopt;
  std::string out;
  for (std::size_t at = 0; at < flat->size();) {
    const std::string_view unit = std::string_view(*flat).substr(at, 1);
    std::size_t count = 1;
    ++at;
    if (at < flat->size() && (*flat)[at] == '*') count = count_at(*flat, at);
    if (!repeat(unit, count, out)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<std::vector<LayerRange>> parse_megatron_layout(std::string_view text,
                                                             std::int32_t blocks) {
  const std::optional<std::string> layout = written_out(text);
  if (!layout) return std::nullopt;
  std::string layers = *layout;
  std::erase(layers, '|');
  const std::string expected = "E" + std::string(static_cast<std::size_t>(blocks), 't') + "L";
  if (layers != expected) return std::nullopt;
  std::vector<LayerRange> stages{{0, 0}};
  for (const char letter : *layout) {
    std::int32_t& end = stages.back().last;
    if (letter == '|') {
      stages.push_back({end, end});
    } else {
      end += letter == 't' ? 2 : 1;  // attention and mlp
    }
  }
  const bool empty = std::ranges::any_of(stages, [](LayerRange one) { return one.size() == 0; });
  return empty ? std::nullopt : std::optional(std::move(stages));
}

}  // namespace tandem
