// The pictures of core/schedules/pictures.md are what the tool draws, and it draws every schedule.

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Pictures : public CommandLine {
 protected:
  /// What the tool shows before the legend.
  std::string drawn(const std::string& command) const {
    const std::string out = tandem(command).out + "\n";  // an order ends without an empty line
    return out.substr(0, out.find("\n\n"));
  }
};

struct Place {
  std::size_t first = 0, size = 0;
};

/// Of the text behind `from` and before `until`; a size of 0: there is none.
Place between(const std::string& text, std::string_view from, std::string_view until,
              std::size_t start) {
  const std::size_t at = text.find(from, start);
  if (at == std::string::npos) return {};
  const std::size_t first = at + from.size();
  return {first, text.find(until, first) - first};
}

// With UPDATE=1 the page is rewritten; its diff is what a reviewer reads.
TEST_F(Pictures, AreDrawnByTheTool) {
  const auto path = source_folder() / "core/schedules/pictures.md";
  std::ifstream file(path);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  const char* update = std::getenv("UPDATE");
  const bool rewrites = update != nullptr && std::string_view(update) == "1";
  int pictures = 0;
  for (Place command = between(page, "\n`tandem ", "`\n", 0); command.size > 0; ++pictures) {
    const Place shown = between(page, "\n```\n", "\n```\n", command.first);
    const std::string text = page.substr(command.first, command.size), now = drawn(text);
    if (rewrites) {
      page.replace(shown.first, shown.size, now);
    } else {
      EXPECT_EQ(page.substr(shown.first, shown.size), now) << text << "\nUPDATE=1 draws it anew";
    }
    command = between(page, "\n`tandem ", "`\n", shown.first);
  }
  EXPECT_GT(pictures, 30);
  if (rewrites) std::ofstream(path) << page;
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
