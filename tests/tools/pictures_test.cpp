// The pictures of core/schedules/README.md are what the tool draws, and no schedule lacks one.

#include <string>
#include <string_view>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Pictures : public CommandLine {};

std::string schedules_readme() {
  std::ifstream file(testing::source_folder() / "core/schedules/README.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Pictures, AreDrawnByTheTool) {
  const std::string readme = schedules_readme();
  constexpr std::string_view kBlock = "```\n$ tandem ";
  int drawn = 0;
  for (std::size_t at = readme.find(kBlock); at != std::string::npos;
       at = readme.find(kBlock, at + 1)) {
    const std::size_t first = at + kBlock.size(), end = readme.find('\n', first);
    const std::string command = readme.substr(first, end - first);
    const std::string shown = readme.substr(end + 1, readme.find("\n```", end) - end - 1);
    const std::string out = tandem(command).out + "\n";  // an order ends without an empty line
    EXPECT_EQ(shown, out.substr(0, out.find("\n\n"))) << command;
    ++drawn;
  }
  EXPECT_GT(drawn, 10);
}

TEST_F(Pictures, ShowEverySchedule) {
  const std::string readme = schedules_readme();
  const Json listed = json_of("schedule --list --json");
  for (const Json& row : listed["result"]["schedules"]) {
    const std::string name = row["name"];
    if (name.starts_with("probe-")) continue;
    const std::size_t section = readme.find("\n### " + name + "\n");
    ASSERT_NE(section, std::string::npos) << name;
    const std::size_t next = readme.find("\n### ", section + 1);
    EXPECT_THAT(readme.substr(section, next - section), HasSubstr(" " + name + " --devices "));
  }
}

}  // namespace
}  // namespace tandem::testing
