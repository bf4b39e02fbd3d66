#include "core/model/catalog_names.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem {

namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

bool is_in_word(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
  // 1.3b is another model than 13b.
  if (text[at] == '.') return at > 0 && digit(at - 1) && digit(at + 1);
  return is_letter(text[at]) || is_digit(text[at]);
}

/// "DGX-A100" → dgx, a100.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool word = is_in_word(text, at);
    if (word && !inside) words.emplace_back();
    if (word) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
    inside = word;
  }
  return words;
}

/// "Llama3.1-405B" → llama, 3.1, 405b; h100 stays one word.
std::vector<std::string> parts_of(std::string_view text) {
  constexpr std::ptrdiff_t kFamily = 3;  // letters that a number behind them is a version of
  std::vector<std::string> parts;
  for (const std::string& word : words_of(text)) {
    const auto letters = std::ranges::find_if_not(word, is_letter) - word.begin();
    const bool split = letters >= kFamily && letters < std::ssize(word);
    if (split) parts.push_back(word.substr(0, static_cast<std::size_t>(letters)));
    parts.push_back(split ? word.substr(static_cast<std::size_t>(letters)) : word);
  }
  return parts;
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

/// Whether it is a size, such as 405b or 6.7b; then in units of its letter.
bool is_size(const std::string& part, double& size) {
  char* end = nullptr;
  size = std::strtod(part.c_str(), &end);
  const std::string_view unit(end);
  if (size <= 0.0 || (unit != "b" && unit != "m" && unit != "t")) return false;
  if (unit == "m") size /= 1000.0;
  if (unit == "t") size *= 1000.0;
  return true;
}

/// Pairs of letters in common, from 0 to 1: of names that are as like otherwise.
double likeness_of_letters(std::string_view a, std::string_view b) {
  if (a.size() < 2 || b.size() < 2) return 0.0;
  std::multiset<std::string_view> pairs;
  for (std::size_t at = 0; at + 1 < a.size(); ++at) pairs.insert(a.substr(at, 2));
  double common = 0.0;
  for (std::size_t at = 0; at + 1 < b.size(); ++at) {
    const auto found = pairs.find(b.substr(at, 2));
    if (found == pairs.end()) continue;
    common += 1.0;
    pairs.erase(found);
  }
  return 2.0 * common / static_cast<double>(a.size() + b.size() - 2);
}

/// Whether one is a version of the other, such as 3.1 of 3.
bool is_version(const std::string& later, const std::string& first) {
  return later.starts_with(first + ".") && is_digit(later.back());
}

/// How much two parts have in common: 0, up to 1, or more where they say more than a word does.
double likeness_of_parts(const std::string& a, const std::string& b) {
  constexpr double kNumbered = 1.2, kVersion = 0.7, kSize = 0.6, kLetters = 0.6;
  if (a == b) return std::ranges::any_of(a, is_digit) ? kNumbered : 1.0;
  double first = 0.0, second = 0.0;
  if (is_size(a, first) && is_size(b, second))
    return kSize / (1.0 + std::abs(std::log(first / second)));
  if (is_version(a, b) || is_version(b, a)) return kVersion;
  if (std::ranges::all_of(a + b, is_letter)) return kLetters * likeness_of_letters(a, b);
  const bool long_enough = std::min(a.size(), b.size()) > 2 && is_letter(a.front());
  return long_enough && (a.starts_with(b) || b.starts_with(a)) ? kVersion : 0.0;
}

/// 0: of another family, that is without a word of letters, or of letters and digits, in common.
double likeness(std::string_view typed, const KnownName& known) {
  const std::vector<std::string> of_typed = parts_of(typed), of_name = parts_of(known.name);
  constexpr double kFamily = 0.7;  // as like are parts of one
  double common = 0.0;
  bool family = false;
  for (const std::string& part : of_typed) {
    double most = 0.0;
    for (const std::string& other : of_name) {
      const double like = likeness_of_parts(part, other);
      most = std::max(most, like);
      family = family || (like >= kFamily && part.size() > 2 && is_letter(part.front()));
    }
    common += most;
  }
  if (!family) return 0.0;
  const auto parts = static_cast<double>(of_typed.size() + of_name.size());
  return 2.0 * common / parts +
         0.1 * likeness_of_letters(lower_case(typed), lower_case(known.name));
}

}  // namespace

Meaning meant_by(std::string_view typed, const std::vector<KnownName>& known) {
  const std::vector<std::string> words = words_of(typed);
  const std::string small = lower_case(typed), plain = joined(words);
  const std::function<bool(const KnownName&)> ways[] = {
      [&](const KnownName& one) { return one.name == typed; },
      [&](const KnownName& one) { return lower_case(one.name) == small; },
      [&](const KnownName& one) { return joined(words_of(one.name)) == plain; },
      [&](const KnownName& one) {
        const std::vector<std::string> of_name = words_of(one.name);
        return std::ranges::mismatch(of_name, words).in2 == words.end();
      },
      [&](const KnownName& one) { return joined(words_of(one.name)).starts_with(plain); },
      [&](const KnownName& one) { return has_all(words_of(one.name), words); },
      [&](const KnownName& one) { return has_all(words_of(one.name + " " + one.also), words); }};
  Meaning meaning;
  if (plain.size() < 2) return meaning;
  for (int way = Meaning::kSame; way < Meaning::kNotAtAll && meaning.places.empty(); ++way) {
    for (std::size_t place = 0; place < known.size(); ++place) {
      if (ways[way](known[place])) meaning.places.push_back(place);
    }
    if (!meaning.places.empty()) meaning.closeness = static_cast<Meaning::Closeness>(way);
  }
  return meaning;
}

std::vector<std::string> likest_names(std::string_view typed, const std::vector<KnownName>& known) {
  constexpr std::size_t kMost = 3;
  constexpr double kAsGood = 0.985, kLeast = 0.25;
  std::vector<std::pair<double, std::string>> like;
  for (const KnownName& one : known) {
    if (const double of = likeness(typed, one); of > 0.0) like.emplace_back(of, one.name);
  }
  std::ranges::stable_sort(like, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [of, name] : like) {
    if (names.size() < kMost && of >= kLeast && of >= kAsGood * like.front().first)
      names.push_back(name);
  }
  if (!names.empty()) return names;
  std::vector<std::string> all;
  for (const KnownName& one : known) all.push_back(one.name);
  if (std::string nearest = nearest_word(typed, all); !nearest.empty())
    names.push_back(std::move(nearest));
  return names;
}

std::size_t the_one_meant(std::string_view typed, const std::vector<KnownName>& known,
                          std::string_view where, std::string_view kind) {
  const std::vector<std::size_t> places = meant_by(typed, known).places;
  if (places.size() == 1) return places.front();
  if (places.empty()) {
    const std::vector<std::string> like = likest_names(typed, known);
    throw UsageError(fmt::format(
        "{}the catalogue has no {}{}{}{}", where, kind, typed,
        like.empty() ? "" : fmt::format("; did you mean \"{}\"?", fmt::join(like, "\" or \"")),
        kCatalogListHint));
  }
  constexpr std::size_t kMost = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, places.size()); ++i)
    list += (i == 0 ? "" : ", ") + known[places[i]].name;
  throw UsageError(fmt::format("{}{}{} may be any of {}{}: name one{}", where, kind, typed, list,
                               places.size() > kMost ? ", …" : "", kCatalogListHint));
}

}  // namespace tandem
