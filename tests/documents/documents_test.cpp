// The documents: commands that they show run, and print what is shown; links lead somewhere; pages
// are short. UPDATE=1 rewrites what commands print.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/documents/blocks.h"
#include "tests/documents/links.h"
#include "tests/documents/page.h"
#include "tests/documents/words.h"
#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;

/// What the root README leads to, a page a task.
const std::vector<std::string> kTasks = {
    "core/notation/my_own_schedule.md", "executor/cuda/gpus.md",     "executor/train_my_text.md",
    "planner/which_split.md",           "simulator/replay_a_job.md", "simulator/what_if.md"};

/// Blocks that nothing checks.
constexpr std::size_t kMostNotRun = 10;

/// Every page of the checkout, by its path from the root.
const std::map<std::string, std::string>& pages() {
  static const std::map<std::string, std::string> all = [] {
    const fs::path root = source_folder();
    std::map<std::string, std::string> found = {{"README.md", read_page(root / "README.md")}};
    for (const char* folder :
         {"core", "simulator", "executor", "planner", "traces", "tools", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        if (entry.path().extension() == ".md")
          found[entry.path().lexically_relative(root)] = read_page(entry.path());
      }
    }
    return found;
  }();
  return all;
}

bool asked_to_update() {
  const char* update = std::getenv("UPDATE");
  return update != nullptr && std::string_view(update) == "1";
}

class Documents : public ::testing::TestWithParam<std::string> {};

TEST_P(Documents, ShowWhatCommandsPrint) {
  const std::string& path = GetParam();
  const PageResult result = run_page(path, pages().at(path), TANDEM_BINARY);
  if (asked_to_update() && result.text != pages().at(path)) {
    std::ofstream(source_folder() / path, std::ios::binary) << result.text;
    fmt::print("rewritten: {}\n", path);
  } else {
    EXPECT_TRUE(result.differences.empty())
        << fmt::format("{}\nUPDATE=1 rewrites outputs", fmt::join(result.differences, "\n"));
  }
  EXPECT_TRUE(result.failures.empty()) << fmt::format("{}", fmt::join(result.failures, "\n"));
  const char* required = std::getenv("TANDEM_REQUIRE_DATA");
  if (required != nullptr && std::string_view(required) == "1") {
    EXPECT_TRUE(result.left_out.empty()) << "TANDEM_REQUIRE_DATA=1, but TANDEM_DATA is not set";
  } else if (!result.left_out.empty()) {
    GTEST_SKIP() << "TANDEM_DATA is not set: "
                 << fmt::format("{}", fmt::join(result.left_out, ", "));
  }
}

std::vector<std::string> paths() {
  std::vector<std::string> all;
  for (const auto& [path, page] : pages()) {
    const std::vector<Block> blocks = blocks_of(path, page);
    if (!blocks.empty()) all.push_back(path);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Pages, Documents, ::testing::ValuesIn(paths()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '.' || c == '-'; }, '_');
  return name;
});

TEST(DocumentsTree, FewBlocksAreNotRun) {
  std::vector<std::string> unrun;
  std::size_t run = 0;
  for (const auto& [path, page] : pages()) {
    for (const Block& block : blocks_of(path, page)) {
      if (block.runs()) ++run;
      if (!block.not_run.empty())
        unrun.push_back(fmt::format("{}:{}: {}", path, block.line, block.not_run));
    }
  }
  EXPECT_GT(run, 20U);
  EXPECT_LE(unrun.size(), kMostNotRun) << fmt::format("{}", fmt::join(unrun, "\n"));
}

TEST(DocumentsTree, LinksLeadSomewhere) {
  std::vector<std::string> broken;
  for (const auto& [path, page] : pages()) {
    const std::vector<std::string> of_page = broken_links(path, page, source_folder());
    broken.insert(broken.end(), of_page.begin(), of_page.end());
  }
  EXPECT_TRUE(broken.empty()) << fmt::format("{}", fmt::join(broken, "\n"));
}

TEST(DocumentsTree, PagesAreShort) {
  const std::vector<std::string> found = too_long(pages(), kTasks);
  EXPECT_TRUE(found.empty()) << fmt::format("{}", fmt::join(found, "\n"));
}

TEST(DocumentsTree, TheRootLeadsToEveryTask) {
  const std::string& root = pages().at("README.md");
  for (const std::string& task : kTasks) {
    EXPECT_TRUE(pages().contains(task)) << task;
    EXPECT_NE(root.find("](" + task + ")"), std::string::npos) << task;
  }
}

TEST(DocumentsTree, TheExampleIsAFileThatRuns) {
  std::string shown;
  for (const Block& block : blocks_of("README.md", pages().at("README.md"))) {
    if (block.language == "cpp") shown = fmt::format("{}\n", fmt::join(block.text, "\n"));
  }
  EXPECT_EQ(shown, read_page(source_folder() / "tests/documents/example.cpp"));
  const Ran ran = run_command({TANDEM_EXAMPLE});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.ends_with("27 ms a batch\n")) << ran.out;
}

}  // namespace
}  // namespace tandem::testing
