#include "core/text/json_position.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(PlaceOf, CountsLinesAndCharacters) {
  const std::string_view text = "first\r\n  \"süß\": 12,\r\nlast";
  const std::size_t at = text.find("12");
  const SourcePlace place = place_of(text, {at, at + 2});
  EXPECT_EQ(place.line, 2U);
  EXPECT_EQ(place.column, 10U);
  EXPECT_EQ(place.width, 2U);
  EXPECT_EQ(place.source_line, "  \"süß\": 12,");
}

TEST(PlaceOf, EndsARangeWithItsFirstLine) {
  const SourcePlace place = place_of("[1,\n2]", {0, 6});
  EXPECT_EQ(place.line, 1U);
  EXPECT_EQ(place.width, 3U);
}

TEST(PlaceOf, StaysInsideTheText) {
  const SourcePlace place = place_of("ab", {10, 20});
  EXPECT_EQ(place.line, 1U);
  EXPECT_EQ(place.column, 3U);
  EXPECT_EQ(place.width, 1U);
  EXPECT_EQ(place_of("", {}).column, 1U);
  EXPECT_EQ(place_of("a\n", {2, 2}).line, 2U);
}

TEST(PlaceOf, GivesOnlyUtf8) {
  const SourcePlace place = place_of("\"\xC3\xBC\xFF\" 1", {6, 7});
  EXPECT_EQ(place.source_line, "\"???\" 1");
  EXPECT_EQ(place.column, 7U);
}

TEST(PlaceOf, LeavesOutAnEndlessLine) {
  EXPECT_EQ(place_of(std::string(20'000, 'x'), {5, 6}).source_line, "");
}

constexpr const char* kCommentedPlan = R"({
  // A comment with a "key": 1 and a brace {.
  "a~b/c": 1,
  "stages": [[0, 3], /* [9, 9], */ [3, 6]],
  "esc\u0061pe": {"x": "}]\"", "y": -1.5e3}
})";

TEST(Locate, FindsValues) {
  const auto at = [](const char* pointer) {
    const SourcePlace place = locate("plan.json", kCommentedPlan, pointer);
    EXPECT_EQ(place.file, "plan.json");
    EXPECT_EQ(place.pointer, pointer);
    return std::to_string(place.line) + ":" + std::to_string(place.column) + "+" +
           std::to_string(place.width);
  };
  EXPECT_EQ(at(""), "1:1+1");
  EXPECT_EQ(at("/a~0b~1c"), "3:12+1");
  EXPECT_EQ(at("/stages"), "4:13+30");
  EXPECT_EQ(at("/stages/1"), "4:36+6");
  EXPECT_EQ(at("/stages/1/1"), "4:40+1");
  EXPECT_EQ(at("/escape/x"), "5:24+6");
  EXPECT_EQ(at("/escape/y"), "5:37+6");
}

TEST(Locate, FallsBackToTheNearestHolder) {
  EXPECT_EQ(locate("f", kCommentedPlan, "/stages/7").column, 13U);
  EXPECT_EQ(locate("f", kCommentedPlan, "/nothing/here").line, 1U);
  EXPECT_EQ(locate("f", kCommentedPlan, "/escape/y/z").column, 37U);
  EXPECT_EQ(locate("f", "{\"a\": ", "/a").line, 0U);
  EXPECT_EQ(locate("f", "{}", "no pointer").line, 1U);
}

}  // namespace
}  // namespace tandem
