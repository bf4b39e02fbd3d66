// What each command says, word by word: tests/tools/messages/golden/COMMAND.txt.
// UPDATE=1 in the environment rewrites these files, and their diff is the review.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/schedule/options.h"
#include "tests/support/source_folder.h"
#include "tests/tools/messages/transcript.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;

fs::path golden_messages() { return source_folder() / "tests/tools/messages/golden"; }

std::string golden_text(const std::string& name) {
  std::ifstream file(golden_messages() / (name + ".txt"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_messages()))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Messages : public ::testing::TestWithParam<std::string> {};

TEST_P(Messages, AreThoseOfTheGoldenFile) {
  const std::string name = GetParam() + ".txt", text = golden_text(GetParam());
  const char* update = std::getenv("UPDATE");
  const bool rewrite = update != nullptr && std::string_view(update) == "1";
  const Replayed now = replay_transcript(name, parse_transcript(name, text, rewrite));
  if (rewrite) {
    std::ofstream(golden_messages() / name, std::ios::binary) << now.text;
    return;
  }
  EXPECT_EQ(now.differences, "") << "UPDATE=1 rewrites " << name;
}

INSTANTIATE_TEST_SUITE_P(OfEveryCommand, Messages, ::testing::ValuesIn(golden_names()),
                         [](const auto& name) { return name.param; });

class MessagesOfCommands : public CommandLine {};

/// Every command has a golden file, which holds its help: no line wider than a terminal of 80
/// columns, which stdout counts as where it is none.
TEST_F(MessagesOfCommands, HaveAFileThatHoldsTheHelp) {
  std::vector<std::string> commands{"tandem", "sweep merge"};
  const std::string help = tandem("--help").out;
  for (std::size_t at = help.find("\n  "); at != std::string::npos; at = help.find("\n  ", at + 1))
    commands.push_back(help.substr(at + 3, help.find(' ', at + 3) - at - 3));
  EXPECT_GT(commands.size(), 17U);
  for (const std::string& command : commands) {
    std::string name = command;
    std::replace(name.begin(), name.end(), ' ', '_');
    const std::string line = command == "tandem" ? "--help" : command + " --help";
    const std::string out = tandem(line).out;
    EXPECT_THAT(golden_text(name), HasSubstr("\n$ tandem " + line + "\n[stdout]\n" +
                                             without_options_of_schedules(out)));
    EXPECT_THAT(out, StartsWith("usage: tandem ")) << command;
    std::istringstream rows(out);
    for (std::string row; std::getline(rows, row);) EXPECT_LE(row.size(), 80U) << row;
  }
}

const std::string kSession =
    "# Two devices\n"
    "file empty\n"
    "edit plan.json: \"depth\": 2 => \"depth\": 0\n"
    "$ tandem check plan.json\n"
    "$ tandem check empty\n"
    "empty:1:1: error: expected an object, found the end of the file\n"
    "[exit 3]\n";

TEST(MessagesTest, OnlyOptionsOfSomeSchedulesAreLeftOutOfHelp) {
  std::string rows;
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.of_all) rows += fmt::format("  --{}  names:\n            its help\n", option.flag);
  }
  const std::string head = "usage: tandem a\n\nSchedule:\n  --width W  replicas\n";
  const std::string tail = "  --seeds N  another\n             one\n\nExit codes: 0\n";
  EXPECT_EQ(without_options_of_schedules(head + rows + tail), head + tail);
  const std::string other = head + "  --seed N  of weights\n" + tail;
  EXPECT_EQ(without_options_of_schedules(other), other);
  EXPECT_EQ(without_options_of_schedules(rows), rows);
}

/// The control: a message that reads otherwise is seen, and so is another exit code.
TEST(MessagesTest, AnAlteredCaseIsShownAsADiff) {
  const auto altered = [](const std::string& part, const std::string& instead) {
    const Replayed now =
        replay_transcript("x", parse_transcript("x", kSession, /*unfinished=*/true));
    EXPECT_EQ(replay_transcript("x", parse_transcript("x", now.text)).differences, "");
    return replay_transcript("x", parse_transcript("x", with(now.text, part, instead))).differences;
  };
  const std::string depth = "/depth: expected an integer";
  EXPECT_THAT(altered(depth, "/depth: expected a number"),
              ::testing::AllOf(StartsWith("x:4: $ tandem check plan.json\n- plan.json:6:10: error: "
                                          "/depth: expected a number"),
                               HasSubstr("\n+ plan.json:6:10: error: /depth: expected an integer"),
                               HasSubstr("\n  [exit 3]\n")));
  EXPECT_THAT(altered("[exit 3]\n", "[exit 4]\n"), HasSubstr("\n- [exit 4]\n+ [exit 3]\n"));
}

TEST(MessagesTest, AFaultOfAFileIsRefusedWithItsLine) {
  const auto fault = [](const std::string& text) -> std::string {
    try {
      replay_transcript("x", parse_transcript("x", text));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(fault("# Fine\n$ tandem xyz > /dev/null\n[exit 0]\n"), "none");
  for (const auto& [text, start] : std::vector<std::pair<std::string, std::string>>{
           {kSession, "x:4: what the command prints"},
           {"\nerror: nothing\n", "x:2: expected #, $, file"},
           {"#\n", "x:1: "},
           {"# A\n$ ls\n[exit 0]\n", "x:2: expected $ tandem"},
           {"$ tandem 'a\n[exit 0]\n", "x:1: a quote"},
           {"\n$ tandem version\nno end\n", "x:2: no [exit N]"},
           {"$ tandem version\nx\n[exit two]\n", "x:3: expected [exit N]"},
           {"edit plan.json: a\n", "x:1: expected edit"},
           {"\n\nedit plan.json: nowhere => b\n", "x:3: plan.json has no nowhere"},
           {"copy a\n", "x:1: expected copy"},
           {"copy tests/absent b\n", "x:1: "},
           {"mask (\n", "x:1: "}})
    EXPECT_THAT(fault(text), StartsWith(start));
}

}  // namespace
}  // namespace tandem::testing
