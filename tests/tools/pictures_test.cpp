// The pictures of core/schedules/pictures.md are what the tool draws, and it draws every schedule.

#include <array>
#include <string>
#include <string_view>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Pictures : public CommandLine {};

TEST_F(Pictures, AreDrawnByTheTool) {
  std::ifstream file(source_folder() / "core/schedules/pictures.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kBlock = "```console\n$ tandem ";
  int drawn = 0;
  for (std::size_t at = page.find(kBlock); at != std::string::npos;
       at = page.find(kBlock, at + 1)) {
    const std::size_t first = at + kBlock.size(), end = page.find('\n', first);
    const std::string command = page.substr(first, end - first);
    std::string shown = page.substr(end + 1, page.find("\n```", end) - end - 1);
    if (shown.ends_with("\n…")) shown.resize(shown.size() - std::string_view("\n…").size());
    const std::string out = tandem(command).out + "\n";  // an order ends without an empty line
    EXPECT_EQ(shown, out.substr(0, out.find("\n\n"))) << command;
    ++drawn;
  }
  EXPECT_GT(drawn, 30);
}

TEST_F(Pictures, ShowEverySchedule) {
  constexpr std::array<std::string_view, 3> kShapes{"--devices 4 --microbatches 8",
                                                    "--devices 4 --microbatches 4",
                                                    "--devices 1 --microbatches 4"};
  const Json listed = json_of("schedule --list --json");
  for (const Json& row : listed["result"]["schedules"]) {
    const std::string name = row["name"];
    std::string picture;
    for (const std::string_view shape : kShapes) {
      std::string command = fmt::format("schedule {} {} --format picture", name, shape);
      for (const Json& option : row["options"]) {
        if (option == "activation-cap") command += " --activation-cap 3";
      }
      const Ran ran = tandem(command);
      if (ran.code == 0) picture = ran.out;
    }
    EXPECT_THAT(picture, HasSubstr("\ndev 0 |")) << name;
    EXPECT_THAT(picture, HasSubstr(" 1")) << name;
  }
}

}  // namespace
}  // namespace tandem::testing
