// Limits of a page's length are seen to be broken.

#include "tests/documents/words.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Pages = std::map<std::string, std::string>;

std::string page_of(std::size_t words) {
  std::string page;
  for (std::size_t i = 0; i < words; ++i) page += "word\n";
  return page;
}

TEST(Words, AreCountedInBlocksToo) {
  EXPECT_EQ(words_of("# One two\n```\nthree  four\n```\n"), 7U);
  EXPECT_EQ(words_of(""), 0U);
}

TEST(Words, AtTheLimitsAreFew) {
  EXPECT_THAT(too_long({{"README.md", page_of(700)},
                        {"core/README.md", page_of(1500)},
                        {"core/task.md", page_of(800)},
                        {"core/format.md", page_of(5000)}},
                       {"core/task.md"}),
              IsEmpty());
}

TEST(Words, BeyondTheLimitsAreFound) {
  EXPECT_THAT(too_long({{"README.md", page_of(701)},
                        {"a/README.md", page_of(1501)},
                        {"a/task.md", page_of(801)}},
                       {"a/task.md"}),
              ElementsAre("README.md:1: error: 701 words, at most 700",
                          "a/README.md:1: error: 1501 words, at most 1500",
                          "a/task.md:1: error: 801 words, at most 800"));
}

TEST(Words, ColumnsOfTheRootAreCharacters) {
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ü";
  EXPECT_THAT(too_long({{"README.md", "\n" + umlauts + "\n"}}, {}), IsEmpty());
  EXPECT_THAT(too_long({{"README.md", "\n" + umlauts + "ü\n"}}, {}),
              ElementsAre("README.md:2: error: line exceeds 100 columns"));
  EXPECT_THAT(too_long({{"core/README.md", umlauts + "ü\n"}}, {}), IsEmpty());
}

}  // namespace
}  // namespace tandem::testing
