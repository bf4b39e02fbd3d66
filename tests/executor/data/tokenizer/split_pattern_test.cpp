// Patterns that are taken, those that are not, and the normal form.

#include "executor/data/tokenizer/split_pattern.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/data/tokenizer/nfc.h"
#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

Words matches(std::string_view pattern, std::string_view text) {
  const SplitPattern compiled(pattern);
  const SplitPattern::Search search(compiled);
  SplitPattern::Match match;
  Words words;
  for (std::size_t at = 0; at < text.size() && search.find(text, at, match); at = match.last)
    words.emplace_back(text.substr(match.first, match.last - match.first));
  return words;
}

TEST(SplitPattern, CutsAsItSays) {
  EXPECT_EQ(matches(R"( ?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+)", "In 12345  the\u00E4  "),
            (Words{"In", " ", "123", "45", " ", " the\u00E4", "  "}));
  EXPECT_EQ(matches(R"((?i:'s|'t))", "'S't's'd"), (Words{"'S", "'t", "'s"}));
  EXPECT_EQ(matches(R"([^a-c\r\n]+)", "xyazb\nw"), (Words{"xy", "z", "w"}));
  EXPECT_EQ(matches(R"(\S+)", "a\u3000b\u180Ec"), (Words{"a", "b\u180Ec"}))
      << "U+180E is no white space any more";
  EXPECT_EQ(matches(R"(\p{L}+)", "a\U00031350\U0002EBF0b"), (Words{"a\U00031350\U0002EBF0b"}))
      << "letters since Unicode 15";
}

TEST(SplitPattern, ThatMayMeanSomethingElseIsRefused) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {"", "an empty pattern"},
      {R"(\w+)", R"("\w")"},
      {R"(\d)", R"("\d")"},
      {R"(a\b)", R"("\b" at byte 1)"},
      {R"(\p{Lu})", R"("\p{Lu}")"},
      {R"(\p{L)", R"("\p{L")"},
      {"(a)", "the group \"(a)\""},
      {"(?<=a)b", R"(the group "(?<=")"},
      {"(?R)", "the group"},
      {"(*ACCEPT)", "the group"},
      {"(?:a", "a group that is not closed"},
      {"a)", "\")\" without a group"},
      {"[a[b]]", "a class within a class"},
      {"[a&&b]", R"("&&" in a class)"},
      {"[]", "an empty class"},
      {"[a", "a class that is not closed"},
      {R"([\s-a])", R"(this "-" in a class)"},
      {"a{1,3}+", "a quantifier of a quantifier"},
      {"a{,3}", R"(this "{")"},
      {"a{2000}", "more than 1000 repetitions"},
      {"a**", "a quantifier of nothing"},
      {"(?:|+)", "a quantifier of nothing"},
      {"(?:a+)+b", "a quantifier of a group with quantifiers"},
      {"(?:(?:a+))*b", "a quantifier of a group with quantifiers"},
      {"(?=a)*b", "a quantifier of a lookahead"},
      {"(?i:ss)", "\"ss\" in a pattern with \"(?i:\""},
      {"(?i:\u00E4)", "a letter beyond ASCII"},
      {std::string(5000, 'a'), "a pattern of more than 4096 bytes"},
      {"a*", "matches an empty text"},
      {"[z-a]", "the split pattern is malformed"},
  };
  for (const auto& [pattern, reason] : refused) {
    EXPECT_THAT(error_of([&, one = pattern] { SplitPattern{one}; }), ::testing::HasSubstr(reason))
        << pattern;
  }
}

TEST(SplitPattern, ThatTakesTooLongOrFindsNothingIsAnError) {
  const std::string letters(5000, 'a');
  EXPECT_THAT(error_of([&] { matches("a*a*a*a*a*a*a*[bc][de]", letters); }),
              ::testing::HasSubstr("the split pattern fails at byte 0 of a text"));
  EXPECT_THAT(error_of([&] { matches("b|(?=a)", letters); }),
              ::testing::HasSubstr("matches an empty text"));
  EXPECT_EQ(matches("a{1,1000}", letters).size(), 5u) << "the control";
}

TEST(Nfc, ComposesAndLeavesTheRest) {
  const auto nfc = [](std::string_view text) {
    std::string storage;
    return std::string(to_nfc(text, storage));
  };
  EXPECT_EQ(nfc("cafe\u0301s e\u0323\u0302!"), "caf\u00E9s \u1EC7!");
  EXPECT_EQ(nfc("\u212B\u1100\u1161\u11A8\uAC00\u11A8x"), "\u00C5\uAC01\uAC01x");
  EXPECT_EQ(nfc("\u0301\u0334a"), "\u0334\u0301a");
  EXPECT_EQ(nfc("\u0958\u304B\u3099"), "\u0915\u093C\u304C");
  EXPECT_EQ(nfc("e\u07FD\u0301"), "e\u07FD\u0301") << "a mark since Unicode 11, as the library";
  std::string storage;
  const std::string_view composed = "caf\u00E9 \u5317\u4EAC \U0001F642 \u0E44\u0E17\u0E22";
  EXPECT_EQ(to_nfc(composed, storage).data(), composed.data()) << "no copy";
}

}  // namespace
}  // namespace tandem
