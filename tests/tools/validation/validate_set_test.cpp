// Comparisons of published sets, of commands that are played.

#include "tools/validation/validate_set.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::tools {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

PublishedSet two_rows() {
  PublishedSet set{.name = "two",
                   .title = {},
                   .source = {},
                   .quantity = {},
                   .constants = {},
                   .held_out = {},
                   .command = "run",
                   .files = {},
                   .figure = "/a/*/b",
                   .content = {}};
  set.content = std::vector<PublishedRow>{
      {.name = "x", .published = 10.0, .options = "x", .error_percent = 10.0},
      {.name = "y", .published = 2.0, .options = "y", .over = "x", .error_percent = 0.0}};
  return set;
}

/// Prints the largest of two: 11 for x, 22 for y.
Json played(const std::vector<std::string>& words) {
  const double largest = words.back() == "x" ? 11.0 : 22.0;
  return {{"a", {{{"b", 1.0}}, {{"b", largest}}}}};
}

TEST(ValidateSet, ComparesTheLargestAndRatios) {
  const PublishedSet set = two_rows();
  const ComparedSet compared = compare_set(set, played, "");
  ASSERT_EQ(compared.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(compared.rows[0].predicted, 11.0);
  EXPECT_DOUBLE_EQ(compared.rows[1].predicted, 2.0);
  EXPECT_THAT(compared.worse, IsEmpty());
  EXPECT_THAT(compared.better, IsEmpty());
}

TEST(ValidateSet, SeesARowThatWorsens) {
  PublishedSet set = two_rows();
  auto& rows = std::get<std::vector<PublishedRow>>(set.content);
  rows[0].error_percent = 9.8;
  rows[1].error_percent = -0.5;
  const ComparedSet compared = compare_set(set, played, "");
  EXPECT_THAT(compared.worse, ElementsAre("two, x: +10.0 %, recorded +9.8 %"));
  EXPECT_THAT(compared.better, ElementsAre("two, y: +0.0 %, recorded -0.5 %"));
}

TEST(ValidateSet, SeesATableThatWorsens) {
  PublishedSet set = two_rows();
  set.command = "run {data}/t";
  set.content = PublishedTable{
      .rows = "/t", .measured = "m", .error = "e", .median_percent = 1.0, .worst_percent = 4.0};
  const auto run = [](const std::vector<std::string>& words) {
    EXPECT_THAT(words, ElementsAre("run", "a folder/t"));
    return Json{{"t",
                 {{{"m", 2.0}, {"e", 0.01}},
                  {{"m", 2.0}, {"e", nullptr}},
                  {{"m", 4.0}, {"e", -0.05}},
                  {{"m", 8.0}, {"e", 0.0}}}}};
  };
  const ComparedSet compared = compare_set(set, run, "a folder");
  EXPECT_EQ(compared.rows.size(), 3u);
  EXPECT_THAT(compared.worse, ElementsAre("two, worst: +5.0 %, recorded +4.0 %"));
  EXPECT_DOUBLE_EQ(compared.rank_correlation, 1.0);
  EXPECT_EQ(compare_set(set, run, "").not_compared, "TANDEM_DATA names no folder of its rows");
}

}  // namespace
}  // namespace tandem::tools
