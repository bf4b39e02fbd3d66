// A page whose commands fail, or print something else, does not pass.

#include "tests/documents/page.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PageResult run(const std::string& page) { return run_page("a.md", page, TANDEM_BINARY); }

TEST(Page, RunsInOneFolderThatLooksLikeTheRoot) {
  const PageResult result =
      run("```sh\necho 7 > build/a\ntest -f tools/models/demo.json\n```\n"
          "```console\n$ cat build/a\n7\n$ tandem no-such | wc -c\n…\n```\n");
  // The last command's first part fails: a pipe fails with it.
  EXPECT_THAT(result.failures, ElementsAre(HasSubstr("a.md:8: error: exit code 2 instead of 0")));
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_THAT(run("```console\n$ tandem version | cut -c1-6\ntandem\n```\n").differences,
              IsEmpty());
}

TEST(Page, AnotherExitCodeIsFound) {
  EXPECT_THAT(run("```sh\ntrue\nfalse\ntrue\n```\n").failures,
              ElementsAre(HasSubstr("a.md:2: error: exit code 1 instead of 0")));
  EXPECT_THAT(run("```sh\nno-such-command\n```\n").failures,
              ElementsAre(HasSubstr("exit code 127 instead of 0")));
  const std::string unknown = "$ tandem no-such\n…\n```\n";
  EXPECT_THAT(run("```console exit=2\n" + unknown).failures, IsEmpty());
  EXPECT_THAT(run("```console exit=3\n" + unknown).failures,
              ElementsAre(HasSubstr("exit code 2 instead of 3")));
}

TEST(Page, AChangedNumberIsFoundAndRewritten) {
  const std::string page =
      "Text.\n```console\n$ echo 8 ms; \\\n  echo more\n9 ms\n…\n$ echo 1\n2\n```\n"
      "End.\n";
  const PageResult result = run(page);
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(result.differences,
              ElementsAre(HasSubstr("a.md:3: error: shown:   9 ms\nprinted: 8 ms"),
                          HasSubstr("a.md:7: error: shown:   2\nprinted: 1")));
  EXPECT_EQ(result.text,
            "Text.\n```console\n$ echo 8 ms; \\\n  echo more\n8 ms\n…\n$ echo 1\n1\n```\nEnd.\n");
  const PageResult again = run(result.text);
  EXPECT_THAT(again.differences, IsEmpty());
  EXPECT_EQ(again.text, result.text);
}

TEST(Page, BothStreamsAreOutput) {
  EXPECT_THAT(run("```console\n$ echo out; echo err >&2\nout\nerr\n```\n").differences, IsEmpty());
}

TEST(Page, FaultsOfBlocksFailIt) {
  EXPECT_THAT(run("```sh not-run=later\nfalse\n```\n").failures,
              ElementsAre(HasSubstr("\"later\" is no reason"), HasSubstr("exit code 1")));
  EXPECT_THAT(run("```sh not-run=needs-hours\nfalse\n```\n").failures, IsEmpty());
}

TEST(Page, PublishedDataLieInBuild) {
  const std::string page = "```sh needs=data\ntest -d build/straggler\n```\n";
  if (std::getenv("TANDEM_DATA") == nullptr) {
    EXPECT_THAT(run(page).left_out, ElementsAre("a.md:1"));
  } else {
    EXPECT_THAT(run(page).left_out, IsEmpty());
    EXPECT_THAT(run(page).failures, IsEmpty());
  }
}

}  // namespace
}  // namespace tandem::testing
