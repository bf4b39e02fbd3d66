// What the program says of itself.

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schedule/options.h"
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

TEST_F(Help, IsAskedForInManyWays) {
  const Ran ran = tandem("--help");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(tandem("-h").out, ran.out);
  EXPECT_EQ(tandem("help").out, ran.out);
  const Ran bare = tandem("");
  EXPECT_EQ(bare.code, 2);
  EXPECT_EQ(bare.out, ran.out);
}

TEST_F(Help, EveryCommandShowsItsOptions) {
  for (const std::string name :
       {"doctor", "schedule", "check", "simulate", "explain", "profile", "plan", "tokens", "train",
        "compare", "trace", "import", "catalog", "calibrate", "version", "sweep"}) {
    const Ran ran = tandem(name + " --help");
    EXPECT_EQ(ran.code, 0) << name;
    EXPECT_EQ(ran.err, "") << name;
    EXPECT_THAT(ran.out, HasSubstr("--json")) << name;
    EXPECT_EQ(tandem(name + " -h").out, ran.out) << name;
  }
}

TEST_F(Help, HelpOfACommandIsAskedForEitherWay) {
  for (const std::string name : {"simulate", "plan", "train", "sweep", "sweep merge", "catalog"})
    EXPECT_EQ(tandem("help " + name).out, tandem(name + " --help").out) << name;
}

/// With single blanks, however the lines are cut.
std::string flowing(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += word + ' ';
  return all;
}

/// "--chunks V interleaved, looped-bfs: stages on each device": golden files leave these out.
TEST_F(Help, OptionsOfSchedulesStandAsTheirRowsSay) {
  for (const std::string command : {"schedule", "simulate", "sweep", "check", "explain"}) {
    const std::string help = flowing(tandem(command + " --help").out);
    for (const ScheduleOption& option : schedule_options()) {
      if (option.flag.empty()) continue;
      std::vector<std::string_view> names;
      for (const ScheduleTraits& row : schedules()) {
        if (!option.of_all && takes(row, option)) names.push_back(row.name);
      }
      // A sweep's flags have values.
      const bool flag = option.argument.empty();
      const std::string value = flag && command == "sweep" ? "[=yes|no]" : "";
      EXPECT_THAT(help, HasSubstr(flowing(fmt::format("--{}{} {} {}{}{}", option.flag, value,
                                                      option.argument, fmt::join(names, ", "),
                                                      names.empty() ? "" : ": ", option.help))))
          << command;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
