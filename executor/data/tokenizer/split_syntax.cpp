#include "executor/data/tokenizer/split_syntax.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

// What Unicode 15 and 16 added to letters and numbers: PCRE2 before 10.45 knows Unicode 14, the
// tokenizers library 16. Made by comparing both over all characters
// (tests/executor/data/tokenizer).
constexpr std::string_view kNewLetters =
    R"(\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}\x{11240}\x{11380}-\x{11389}\x{1138B})"
    R"(\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02})"
    R"(\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA})"
    R"(\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A})"
    R"(\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739})"
    R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kNewNumbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3})"
    R"(\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

constexpr std::size_t kLongestPattern = 4096;
constexpr std::size_t kDeepestGroups = 16;
constexpr std::size_t kMostRepeats = 1000;

class SplitSyntax {
 public:
  explicit SplitSyntax(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    if (pattern_.empty()) refuse("an empty pattern");
    if (pattern_.size() > kLongestPattern)
      refuse(fmt::format("a pattern of more than {} bytes", kLongestPattern));
    while (at_ < pattern_.size()) element();
    if (!groups_.empty()) refuse("a group that is not closed");
    if (ignores_case_) check_folds();
    return std::move(out_);
  }

 private:
  /// Of a group that is open, or the whole pattern.
  struct Group {
    bool repeats = false;  // holds a quantifier
    bool lookahead = false;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{} at byte {} of the split pattern is not supported", what, at_));
  }

  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void element() {
    const char c = pattern_[at_];
    const bool may_repeat = may_repeat_;
    may_repeat_ = true;
    if (c == '\\') return escape(false);
    if (c == '[') return character_class();
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '|') {
      may_repeat_ = false;
      return copy(1);
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') return quantifier(may_repeat);
    if (c == '.' || c == '^' || c == '$' || c == ']' || c == '}') refuse(fmt::format("\"{}\"", c));
    literal();
  }

  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void literal() {
    const std::size_t bytes = character_size(pattern_.substr(at_));
    if (bytes == 0) refuse("a byte that is no UTF-8");
    if (bytes == 1 && static_cast<unsigned char>(pattern_[at_]) < ' ')
      refuse("a control character");
    last_is_group_ = false;
    copy(bytes);
  }

  void escape(bool in_class) {
    last_is_group_ = false;
    const auto replace = [&](std::size_t bytes, std::string_view text) {
      out_ += text;
      at_ += bytes;
    };
    const auto property = [&](std::string_view name, std::string_view more) {
      const std::string both = fmt::format("{}{}", name, more);
      replace(5, in_class ? both : fmt::format("[{}]", both));
    };
    if (next_is("\\p{L}")) return property("\\p{L}", kNewLetters);
    if (next_is("\\p{N}")) return property("\\p{N}", kNewNumbers);
    if (next_is("\\s")) return replace(2, "\\p{White_Space}");
    if (next_is("\\S")) return replace(2, "\\P{White_Space}");
    constexpr std::string_view kLiterals = "rnt\\.*+?()[]{}|^$/'\"-#&";
    if (at_ + 1 < pattern_.size() && kLiterals.find(pattern_[at_ + 1]) != kLiterals.npos)
      return copy(2);
    const std::size_t end = next_is("\\p{") || next_is("\\P{")
                                ? std::min(pattern_.find('}', at_), pattern_.size() - 1) + 1
                                : at_ + 2;
    refuse(fmt::format("\"{}\"", shown(pattern_.substr(at_, end - at_))));
  }

  void character_class() {
    last_is_group_ = false;
    copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') copy(1);
    bool empty = true, after_character = false;
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      const char c = pattern_[at_];
      if (c == '[') refuse("a class within a class");
      if (next_is("&&")) refuse("\"&&\" in a class");
      if (c == '-') {
        const bool before_character = at_ + 1 < pattern_.size() && is_plain(pattern_[at_ + 1]);
        if (!after_character || !before_character) refuse("this \"-\" in a class");
        copy(2);
        after_character = false;
      } else if (c == '\\') {
        escape(true);
        after_character = false;
      } else {
        after_character = is_plain(c);
        literal();
      }
      empty = false;
    }
    if (at_ == pattern_.size()) refuse("a class that is not closed");
    if (empty) refuse("an empty class");
    copy(1);
  }

  static bool is_plain(char c) {
    return is_digit(c) || (lower_case(c) >= 'a' && lower_case(c) <= 'z');
  }

  void open() {
    constexpr std::array<std::string_view, 4> kOpenings{"(?:", "(?i:", "(?=", "(?!"};
    const auto* const found = std::find_if(kOpenings.begin(), kOpenings.end(),
                                           [&](std::string_view start) { return next_is(start); });
    if (found == kOpenings.end())
      refuse(fmt::format("the group \"{}\"", shown(pattern_.substr(at_, 4))));
    if (groups_.size() == kDeepestGroups) refuse("a group this deep in others");
    if (*found == "(?i:") ignores_case_ = true;
    groups_.push_back({.lookahead = *found == "(?=" || *found == "(?!"});
    may_repeat_ = false;
    copy(found->size());
  }

  void close() {
    if (groups_.empty()) refuse("\")\" without a group");
    closed_ = groups_.back();
    groups_.pop_back();
    if (!groups_.empty()) groups_.back().repeats |= closed_.repeats;
    last_is_group_ = true;
    copy(1);
  }

  // Nested quantifiers, such as (a+)+, take time that grows exponentially with the text.
  void quantifier(bool may_repeat) {
    if (!may_repeat) refuse("a quantifier of nothing");
    if (last_is_group_ && closed_.lookahead) refuse("a quantifier of a lookahead");
    if (last_is_group_ && closed_.repeats) refuse("a quantifier of a group with quantifiers");
    if (!groups_.empty()) groups_.back().repeats = true;
    const bool counted = pattern_[at_] == '{';
    if (counted) {
      copy(count_size());
    } else {
      copy(1);
    }
    if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) {
      // Oniguruma reads {2}+ and {2}? in ways of its own.
      if (counted) refuse("a quantifier of a quantifier");
      copy(1);
    }
    may_repeat_ = false;
    last_is_group_ = false;
  }

  /// Of {2}, {2,} or {2,3}.
  std::size_t count_size() const {
    std::size_t end = at_ + 1;
    const auto number = [&] {
      const std::size_t first = end;
      std::size_t value = 0;
      while (end < pattern_.size() && is_digit(pattern_[end]) && end - first < 5)
        value = value * 10 + static_cast<std::size_t>(pattern_[end++] - '0');
      if (value > kMostRepeats) refuse(fmt::format("more than {} repetitions", kMostRepeats));
      return end > first;
    };
    bool sound = number();
    if (sound && end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      number();
    }
    sound = sound && end < pattern_.size() && pattern_[end] == '}';
    if (!sound) refuse("this \"{\"");
    return end + 1 - at_;
  }

  // Without case, Oniguruma lets one character stand for some of two or three, such as ß for ss.
  void check_folds() const {
    const std::string lower = lower_case(pattern_);
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (lower.find(pair) != lower.npos)
        refuse(fmt::format("\"{}\" in a pattern with \"(?i:\"", pair));
    }
    if (std::any_of(lower.begin(), lower.end(),
                    [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
      refuse("a letter beyond ASCII in a pattern with \"(?i:\"");
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  Group closed_;
  bool may_repeat_ = false, last_is_group_ = false, ignores_case_ = false;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern) { return SplitSyntax(pattern).translate(); }

}  // namespace tandem
