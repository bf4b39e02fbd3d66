// Links that lead nowhere are found.

#include "tests/documents/links.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_command.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Links, AHeadingsNameInALinkIsGitHubs) {
  EXPECT_EQ(anchor_of("### cluster.json: devices, and the links between them"),
            "clusterjson-devices-and-the-links-between-them");
  EXPECT_EQ(anchor_of("## Clipping without waiting: `--post-validation`"),
            "clipping-without-waiting---post-validation");
}

TEST(Links, ThatLeadNowhereAreFound) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "core");
  std::ofstream(folder.path() / "core/README.md") << "# Core\n```\n## In a block\n```\n";
  std::ofstream(folder.path() / "LICENSE") << "none";
  const auto links_in = [&](const std::string& page) {
    return broken_links("core/task.md", "# Here\n" + page + "\n", folder.path());
  };
  EXPECT_THAT(links_in("[a](README.md) [b](README.md#core) [c](../LICENSE) [d](#here)"), IsEmpty());
  EXPECT_THAT(links_in("[a](https://example.org/none#such)\n```\n[b](none.md)\n```"), IsEmpty());
  EXPECT_THAT(links_in("[a](none.md)"), ElementsAre("core/task.md:2: error: none.md is not there"));
  EXPECT_THAT(links_in("[a](README.md#in-a-block)"),
              ElementsAre("core/task.md:2: error: README.md#in-a-block names no heading there"));
  EXPECT_THAT(links_in("[a](#there)"),
              ElementsAre("core/task.md:2: error: #there names no heading there"));
}

}  // namespace
}  // namespace tandem::testing
