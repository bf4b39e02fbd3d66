#include "core/model/catalog_names.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem {

namespace {

bool is_word(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  // 1.3b is another model than 13b.
  if (text[at] == '.') return at > 0 && digit(at - 1) && digit(at + 1);
  return std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

/// "DGX-A100" → dgx, a100.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool word = is_word(text, at);
    if (word && !inside) words.emplace_back();
    if (word) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
    inside = word;
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ""));
}

/// Whether each typed word begins one of the name's.
bool has_all(const std::vector<std::string>& words, const std::vector<std::string>& typed) {
  return std::ranges::all_of(typed, [&](const std::string& one) {
    return std::ranges::any_of(words,
                               [&](const std::string& word) { return word.starts_with(one); });
  });
}

}  // namespace

std::vector<std::size_t> meant_by(std::string_view typed, const std::vector<KnownName>& known) {
  const std::vector<std::string> words = words_of(typed);
  const std::string small = lower_case(typed), plain = joined(words);
  const std::function<bool(const KnownName&)> ways[] = {
      [&](const KnownName& one) { return one.name == typed; },
      [&](const KnownName& one) { return lower_case(one.name) == small; },
      [&](const KnownName& one) { return joined(words_of(one.name)) == plain; },
      [&](const KnownName& one) { return joined(words_of(one.name)).starts_with(plain); },
      [&](const KnownName& one) { return has_all(words_of(one.name), words); },
      [&](const KnownName& one) { return has_all(words_of(one.name + " " + one.also), words); }};
  std::vector<std::size_t> places;
  for (const auto& way : ways) {
    for (std::size_t place = 0; place < known.size() && plain.size() > 1; ++place) {
      if (way(known[place])) places.push_back(place);
    }
    if (!places.empty()) break;
  }
  return places;
}

std::size_t the_one_meant(std::string_view typed, const std::vector<KnownName>& known,
                          std::string_view where, std::string_view kind) {
  const std::vector<std::size_t> places = meant_by(typed, known);
  if (places.size() == 1) return places.front();
  if (places.empty()) {
    std::vector<std::string> names;
    for (const KnownName& one : known) names.push_back(one.name);
    throw UsageError(fmt::format("{}the catalogue has no {}{}{}{}", where, kind, typed,
                                 did_you_mean(typed, names), kCatalogListHint));
  }
  constexpr std::size_t kMost = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, places.size()); ++i)
    list += (i == 0 ? "" : ", ") + known[places[i]].name;
  throw UsageError(fmt::format("{}{}{} may be any of {}{}: name one{}", where, kind, typed, list,
                               places.size() > kMost ? ", …" : "", kCatalogListHint));
}

}  // namespace tandem
