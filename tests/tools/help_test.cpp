// What the program says of itself.

#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Help : public CommandLine {};

TEST_F(Help, VersionIsOneLineOrOneObject) {
  const Ran ran = tandem("version");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, ::testing::MatchesRegex("tandem [0-9.]+ \\([^\n]*\\)\n"));
  EXPECT_EQ(tandem("--version").out, ran.out);
  const Json json = json_of("version --json");
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["command"], "version");
  EXPECT_THAT(ran.out, StartsWith("tandem " + json["result"]["version"].get<std::string>()));
}

TEST_F(Help, DoctorSaysWhatThisBuildCanDo) {
  EXPECT_THAT(tandem("doctor").out, HasSubstr("\n  backends     cpu"));
  const Json result = json_of("doctor --json")["result"];
  EXPECT_EQ(result["backends"][0], "cpu");
  EXPECT_EQ(result["backends"].size(), result["backend_cuda"] == "yes" ? 2u : 1u);
  EXPECT_GE(result["cores"], 1);
  for (const char* key :
       {"version", "compiler", "build_type", "cuda", "cuda_reason", "nccl", "nccl_library"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
}

TEST_F(Help, ListsTheCommandsOfThisVersionOnly) {
  const Ran ran = tandem("--help");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  for (const char* name : {"doctor", "schedule", "check", "simulate", "explain", "profile", "plan",
                           "tokens", "train", "compare", "trace", "import", "catalog", "calibrate",
                           "replay", "version", "sweep", "completion", "man"}) {
    EXPECT_THAT(ran.out, HasSubstr(fmt::format("\n  {} ", name)));
  }
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("export")));
  EXPECT_EQ(tandem("-h").out, ran.out);
  EXPECT_EQ(tandem("help").out, ran.out);
  const Ran bare = tandem("");
  EXPECT_EQ(bare.code, 2);
  EXPECT_EQ(bare.out, ran.out);
}

TEST_F(Help, EveryCommandShowsItsOptions) {
  for (const std::string name : {"doctor", "schedule", "check", "simulate", "explain", "profile",
                                 "plan", "tokens", "train", "compare", "trace", "import", "catalog",
                                 "calibrate", "version", "sweep", "completion", "man"}) {
    const Ran ran = tandem(name + " --help");
    EXPECT_EQ(ran.code, 0) << name;
    EXPECT_EQ(ran.err, "") << name;
    EXPECT_THAT(ran.out, StartsWith("usage: tandem " + name + " ")) << name;
    EXPECT_THAT(ran.out, HasSubstr("--json")) << name;
    EXPECT_EQ(tandem(name + " -h").out, ran.out) << name;
  }
}

TEST_F(Help, HelpOfACommandIsAskedForEitherWay) {
  for (const std::string name : {"simulate", "plan", "train", "sweep", "sweep merge", "catalog"})
    EXPECT_EQ(tandem("help " + name).out, tandem(name + " --help").out) << name;
  expect_error("help simulat", 2,
               "error: unknown command \"simulat\"; did you mean \"simulate\"? (tandem --help "
               "lists them)");
}

/// No line is wider than a terminal of 80 columns, which stdout counts as where it is none.
TEST_F(Help, HelpFitsTheTerminal) {
  std::vector<std::string> lines{"--help"};
  for (const std::string name :
       {"doctor", "schedule", "check",   "simulate",    "explain",    "profile", "plan",
        "tokens", "train",    "compare", "trace",       "import",     "catalog", "calibrate",
        "replay", "version",  "sweep",   "sweep merge", "completion", "man"})
    lines.push_back(name + " --help");
  for (const std::string& line : lines) {
    std::istringstream text(tandem(line).out);
    for (std::string row; std::getline(text, row);)
      EXPECT_LE(row.size(), 80u) << line << ": " << row;
  }
}

TEST_F(Help, OptionsStandInGroups) {
  const std::string text = tandem("simulate --help").out;
  std::size_t at = 0;
  for (const char* heading : {"Schedule", "Plain costs", "Run", "A model on a cluster",
                              "What is assumed", "What is not as", "Pictures", "Options"}) {
    const std::size_t found = text.find(fmt::format("\n\n{}", heading), at);
    ASSERT_NE(found, std::string::npos) << heading << text;
    at = found;
  }
  // An option whose name is long has its text below.
  EXPECT_THAT(text, HasSubstr("\n  --forward T "));
}

TEST_F(Help, UnknownCommandsGetASuggestion) {
  expect_error("simulat", 2,
               "error: unknown command \"simulat\"; did you mean \"simulate\"? (tandem --help "
               "lists them)");
  expect_error("xyz", 2, "error: unknown command \"xyz\" (tandem --help lists them)");
  expect_error("-x", 2, "error: unknown command \"-x\" (tandem --help lists them)");
  expect_error(tandem(std::vector<std::string>{""}), 2,
               "error: unknown command \"\" (tandem --help lists them)", "an empty word");
}

TEST_F(Help, CommandsOfTheContractAreNotUnknown) {
  expect_error("export x", 2, "error: tandem export is not in this version");
}

}  // namespace
}  // namespace tandem::testing
