#include "core/base/error.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tandem {
namespace {

Diagnostic diagnostic_about_layers() {
  return {.message = "expected two integers, found \"3-5\"",
          .place = {.file = "plan.json",
                    .line = 14,
                    .column = 13,
                    .pointer = "/stages/2",
                    .source_line = "  \"stages\": \"3-5\",",
                    .width = 5},
          .hint = "a half-open range, such as [3, 6]"};
}

TEST(Diagnostic, HasPlacePointerLineCaretAndHint) {
  EXPECT_EQ(diagnostic_about_layers().to_string(),
            "plan.json:14:13: error: /stages/2: expected two integers, found \"3-5\"\n"
            "  \"stages\": \"3-5\",\n"
            "            ^~~~~ a half-open range, such as [3, 6]");
}

TEST(Diagnostic, LeavesOutWhatIsNotKnown) {
  Diagnostic diagnostic = diagnostic_about_layers();
  diagnostic.place.source_line.clear();
  EXPECT_EQ(diagnostic.to_string(),
            "plan.json:14:13: error: /stages/2: expected two integers, found \"3-5\" "
            "(a half-open range, such as [3, 6])");
  diagnostic.hint.clear();
  diagnostic.place.pointer.clear();
  diagnostic.place.column = 0;
  EXPECT_EQ(diagnostic.to_string(), "plan.json:14: error: expected two integers, found \"3-5\"");
  diagnostic.place.line = 0;
  EXPECT_EQ(diagnostic.to_string(), "plan.json: error: expected two integers, found \"3-5\"");
  diagnostic.place.file.clear();
  EXPECT_EQ(diagnostic.to_string(), "expected two integers, found \"3-5\"");
}

TEST(Diagnostic, CaretStaysUnderItsCharacter) {
  Diagnostic diagnostic{"wrong", {"f", 1, 9, "", "\t\"süß\": \x1B[1m4,", 2}, ""};
  EXPECT_EQ(diagnostic.to_string(),
            "f:1:9: error: wrong\n"
            " \"süß\": ?[1m4,\n"
            "        ^~");
}

TEST(Diagnostic, CaretEndsWithItsLine) {
  Diagnostic diagnostic{"wrong", {"f", 1, 3, "", "ab{", 50}, ""};
  EXPECT_EQ(diagnostic.to_string(), "f:1:3: error: wrong\nab{\n  ^");
  diagnostic.place.column = 4;
  EXPECT_EQ(diagnostic.to_string(), "f:1:4: error: wrong\nab{\n   ^");
}

TEST(Diagnostic, ShowsAWindowOfALongLine) {
  const std::string line = std::string(200, 'a') + "X" + std::string(200, 'b');
  Diagnostic diagnostic{"wrong", {"f", 1, 201, "", line, 1}, "here"};
  EXPECT_EQ(diagnostic.to_string(), "f:1:201: error: wrong\n…" + std::string(48, 'a') + "X" +
                                        std::string(47, 'b') + "…\n" + std::string(49, ' ') +
                                        "^ here");
}

TEST(InputErrorTest, JoinsItsDiagnostics) {
  const InputError error(
      std::vector<Diagnostic>{{"first", {"a", 0, 0, "", "", 1}, ""}, {"second", {}, ""}});
  EXPECT_STREQ(error.what(), "a: error: first\nsecond");
  EXPECT_EQ(error.diagnostics().size(), 2U);
  EXPECT_EQ(error.code(), ExitCode::invalid_input);
}

TEST(InputErrorTest, OfAMessageIsOneDiagnostic) {
  const InputError error("no schedule");
  EXPECT_STREQ(error.what(), "no schedule");
  ASSERT_EQ(error.diagnostics().size(), 1U);
  EXPECT_EQ(error.diagnostics()[0].message, "no schedule");
}

TEST(Errors, CarryTheirExitCodes) {
  EXPECT_EQ(static_cast<int>(UsageError("").code()), 2);
  EXPECT_EQ(static_cast<int>(InputError("").code()), 3);
  EXPECT_EQ(static_cast<int>(InfeasibleError("").code()), 4);
  EXPECT_EQ(static_cast<int>(DeviceError("").code()), 1);
  EXPECT_EQ(static_cast<int>(AbsentError("").code()), 5);
  EXPECT_EQ(static_cast<int>(DifferenceError("").code()), 6);
  EXPECT_EQ(static_cast<int>(Interrupted("").code()), 130);
}

TEST(NearestWord, IsWithinTwoEditsAndAThird) {
  const std::vector<std::string> words{"cluster", "stages", "sgd", "2bw"};
  EXPECT_EQ(nearest_word("clutser", words), "cluster");
  EXPECT_EQ(nearest_word("clstr", words), "");
  EXPECT_EQ(nearest_word("clustr", words), "cluster");
  EXPECT_EQ(nearest_word("stgaes", words), "stages");
  EXPECT_EQ(nearest_word("sgb", words), "sgd");
  EXPECT_EQ(nearest_word("2BW", words), "2bw");
  EXPECT_EQ(nearest_word("sg", words), "");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word("x", {}), "");
  EXPECT_EQ(nearest_word(std::string(1'000'000, 'c'), words), "");
}

TEST(NearestWord, PrefersTheNearer) {
  EXPECT_EQ(nearest_word("gradiant", {"gradual", "gradient"}), "gradient");
  EXPECT_EQ(nearest_word("stage", {"stages", "staged"}), "stages");
}

TEST(DidYouMean, IsAPhraseOrNothing) {
  EXPECT_EQ(did_you_mean("widht", {"width"}), "; did you mean \"width\"?");
  EXPECT_EQ(did_you_mean("depth", {"width"}), "");
}

}  // namespace
}  // namespace tandem
