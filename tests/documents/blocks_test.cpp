// Blocks are found with their commands, and those that would stay unrun by mistake are faults.

#include "tests/documents/blocks.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> faults_of(const std::string& page) {
  std::vector<std::string> faults;
  for (const Block& block : blocks_of("a.md", page))
    faults.insert(faults.end(), block.faults.begin(), block.faults.end());
  return faults;
}

TEST(Blocks, HoldCommandsAndTheirOutput) {
  const std::vector<Block> blocks =
      blocks_of("a.md", "Text.\n```console measured exit=4\n$ a \\\n    b\none\n\ntwo\n$ c\n```\n");
  ASSERT_EQ(blocks.size(), 1U);
  const Block& block = blocks[0];
  EXPECT_EQ(block.line, 2);
  EXPECT_TRUE(block.runs() && block.console() && block.measured && !block.needs_data);
  EXPECT_EQ(block.exit_code, 4);
  EXPECT_THAT(block.faults, IsEmpty());
  ASSERT_EQ(block.commands.size(), 2U);
  EXPECT_EQ(block.commands[0].line, 3);
  EXPECT_EQ(block.commands[0].command, "a \\\n    b");
  EXPECT_THAT(block.commands[0].shown, ElementsAre("one", "", "two"));
  EXPECT_EQ(block.commands[1].line, 8);
  EXPECT_EQ(block.commands[1].command, "c");
}

TEST(Blocks, OfAShellAreOneCommand) {
  const std::vector<Block> blocks =
      blocks_of("a.md", "```sh needs=data\nfirst\nsecond\n```\n```json\n{}\n```\n");
  ASSERT_EQ(blocks.size(), 2U);
  ASSERT_EQ(blocks[0].commands.size(), 1U);
  EXPECT_EQ(blocks[0].commands[0].command, "first\nsecond");
  EXPECT_TRUE(blocks[0].needs_data);
  EXPECT_FALSE(blocks[1].runs());
}

TEST(Blocks, MayStayUnrunForAReasonOfTheListOnly) {
  const std::vector<Block> blocks = blocks_of("a.md", "```sh not-run=needs-hours\nf\n```\n");
  EXPECT_FALSE(blocks.at(0).runs());
  EXPECT_THAT(blocks.at(0).faults, IsEmpty());
  EXPECT_THAT(faults_of("```sh not-run=too-slow\nf\n```\n"),
              ElementsAre(HasSubstr("a.md:1: error: \"too-slow\" is no reason for not being run")));
  EXPECT_THAT(faults_of("```sh not-run\nf\n```\n"), ElementsAre(HasSubstr("is no reason")));
}

TEST(Blocks, ThatAreWrittenWronglyAreFaults) {
  EXPECT_THAT(faults_of("```sh mesured\nf\n```\n"),
              ElementsAre("a.md:1: error: \"mesured\" says nothing of a block"));
  EXPECT_THAT(faults_of("```console exit=x\n$ f\n```\n"), ElementsAre(HasSubstr("\"exit=x\"")));
  EXPECT_THAT(faults_of("```console\nout\n$ f\n```\n"),
              ElementsAre("a.md:2: error: output of no command"));
  EXPECT_THAT(faults_of("\n```sh\nf\n"), ElementsAre("a.md:2: error: a block without end"));
  EXPECT_THAT(faults_of("- a\n  ```sh\n"), ElementsAre("a.md:2: error: a fence begins its line"));
}

TEST(Blocks, ThatHoldCommandsUnmarkedAreFaults) {
  for (const std::string command :
       {"$ tandem version", "tandem version", "tools/test --quick", "cmake --preset release"}) {
    EXPECT_THAT(faults_of("```\n" + command + "\n```\n"),
                ElementsAre(HasSubstr("a.md:2: error: a command")));
  }
  EXPECT_THAT(faults_of("```\ntandem/\ntools/testing\nplan ─► train\n```\n"), IsEmpty());
}

}  // namespace
}  // namespace tandem::testing
