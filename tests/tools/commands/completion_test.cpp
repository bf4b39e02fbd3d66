// What shells complete. bash is asked as it asks itself; zsh and fish, where they are installed,
// read their script. Options are found by --help, which is printed from the same rows, but by
// another way.

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using Words = std::vector<std::string>;

const Words kCommands{"doctor",  "schedule",   "check",     "simulate", "sweep",  "sweep merge",
                      "explain", "profile",    "plan",      "import",   "export", "tokens",
                      "train",   "catalog",    "calibrate", "compare",  "replay", "trace",
                      "version", "completion", "man"};

class Completion : public CommandLine {
 protected:
  void SetUp() override { write("tandem.bash", tandem("completion bash").out); }

  /// What bash offers for the last of these words, the command's name first.
  Words offered(const Words& words) const {
    std::string quoted;
    for (const std::string& word : words) quoted += fmt::format(" '{}'", word);
    const Ran ran =
        in_bash(fmt::format("COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tandem; "
                            "((${{#COMPREPLY[@]}})) && printf '%s\\n' \"${{COMPREPLY[@]}}\"; true",
                            quoted));
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "") << quoted;
    Words all;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    return all;
  }
  Words offered(const std::string& line) const {
    std::istringstream words(line);
    Words all{std::istream_iterator<std::string>(words), {}};
    if (line.ends_with(' ')) all.emplace_back();
    return offered(all);
  }
  Ran in_bash(const std::string& script) const {
    RunOptions options;
    options.folder = folder();
    return run_command({"/usr/bin/env", "bash", "-c", "source ./tandem.bash; " + script}, options);
  }

  /// "--seed" and the like, as --help lists them at the beginnings of its lines.
  std::set<std::string> options_of(const std::string& command) const {
    static const std::regex kOption(R"(\n  (?:-\w, )?(--[a-z0-9-]+))");
    const std::string text = tandem(command + " --help").out;
    std::set<std::string> names;
    for (std::sregex_iterator at(text.begin(), text.end(), kOption), end; at != end; ++at)
      names.insert((*at)[1]);
    return names;
  }

  bool has(const std::string& shell) const {
    return run_command({"/usr/bin/env", shell, "-c", "true"}, {}).code == 0;
  }
};

TEST_F(Completion, OffersCommands) {
  const Words all = offered("tandem ");
  for (const std::string& command : kCommands) {
    if (command.find(' ') == std::string::npos) {
      EXPECT_THAT(all, Contains(command));
    }
  }
  EXPECT_THAT(offered("tandem simul"), ElementsAre("simulate"));
  EXPECT_THAT(offered("tandem help simul"), ElementsAre("simulate"));
  EXPECT_THAT(offered("tandem nonsense "), ElementsAre());
}

TEST_F(Completion, OffersEveryOptionOfEveryCommandAndNoOther) {
  for (const std::string& command : kCommands) {
    const std::set<std::string> expected = options_of(command);
    EXPECT_GE(expected.size(), 2U) << command;  // --json, --help
    const Words found = offered("tandem " + command + " --");
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), expected) << command;
  }
  EXPECT_THAT(offered("tandem simulate --sens"), ElementsAre("--sensitivity"));
}

TEST_F(Completion, OffersWhatAValueMayBe) {
  EXPECT_THAT(offered("tandem simulate --recompute "),
              ElementsAre("none", "selective", "full", "stage"));
  EXPECT_THAT(offered("tandem schedule 1f1b --format pic"), ElementsAre("picture"));
  EXPECT_THAT(offered("tandem train plan.json --on-nan s"), ElementsAre("stop", "skip"));
  EXPECT_THAT(offered("tandem sweep --shard "), ElementsAre("slurm", "mpi", "ranks", "hq"));
  EXPECT_THAT(offered("tandem simulate --forward "), ElementsAre());  // a time
  // bash cuts --option=value at the sign.
  EXPECT_THAT(offered("tandem simulate --recompute = fu"), ElementsAre("full"));
  EXPECT_THAT(offered("tandem simulate --recompute ="),
              ElementsAre("none", "selective", "full", "stage"));
}

TEST_F(Completion, OffersNamesThatTandemKnows) {
  EXPECT_THAT(offered("tandem simulate --schedule zb-h"), ElementsAre("zb-h1", "zb-h2"));
  EXPECT_THAT(offered("tandem simulate --schedule 1f1b,2bw"), ElementsAre("1f1b,2bw"));
  EXPECT_THAT(offered("tandem schedule dap"), ElementsAre("dapple"));  // an alias
  EXPECT_THAT(offered("tandem simulate --model gpt2-x"), ElementsAre("gpt2-xl"));
  EXPECT_THAT(offered("tandem check --cluster p3.16"), ElementsAre("p3.16xlarge"));
  EXPECT_THAT(offered("tandem catalog s"), ElementsAre("show"));
  EXPECT_THAT(offered("tandem completion "), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(offered("tandem import --from "), Contains("hugging-face"));
  EXPECT_THAT(offered("tandem replay --transfers "), Contains("as-seen"));
}

TEST_F(Completion, OffersFilesWhereFilesAre) {
  write("my plan.json", "{}");
  write("my model.json", "{}");
  EXPECT_THAT(offered("tandem train my"),
              ::testing::UnorderedElementsAre("my plan.json", "my model.json"));
  EXPECT_THAT(offered("tandem simulate --trace my\\ p"), ElementsAre());
  EXPECT_THAT(offered(Words{"tandem", "simulate", "--trace", "my p"}), ElementsAre("my plan.json"));
  EXPECT_THAT(offered("tandem simulate --model my"), Contains("my model.json"));
  EXPECT_THAT(offered("tandem explain idle my"), Contains("my plan.json"));
  EXPECT_THAT(offered("tandem sweep merge my"), Contains("my plan.json"));
  EXPECT_THAT(offered("tandem completion my"), ElementsAre());
  EXPECT_THAT(offered("tandem simulate --devices my"), ElementsAre());
}

TEST_F(Completion, IsRegisteredForTheCommand) {
  EXPECT_THAT(in_bash("complete -p tandem").out, HasSubstr("-F _tandem tandem"));
}

TEST_F(Completion, OfZshAndFishHasEveryOption) {
  const std::string zsh = tandem("completion zsh").out, fish = tandem("completion fish").out;
  EXPECT_THAT(zsh, StartsWith("#compdef tandem\n"));
  for (const std::string& command : kCommands) {
    const std::string of_command = zsh.substr(
        zsh.find("\n    " +
                 (command.find(' ') == std::string::npos ? command : "'" + command + "'") + ")\n"));
    const std::string block = of_command.substr(0, of_command.find(";;"));
    const std::string first = command.substr(0, command.find(' '));
    for (const std::string& name : options_of(command)) {
      EXPECT_TRUE(block.find("'" + name + "[") != std::string::npos ||
                  block.find("'" + name + "=") != std::string::npos ||
                  block.find("," + name + "}") != std::string::npos)
          << command << " " << name;
      EXPECT_TRUE(
          std::regex_search(fish, std::regex("complete -c tandem -n '__fish_seen_subcommand_from " +
                                             first + "[^\n]* -l " + name.substr(2) + " ")))
          << command << " " << name;
    }
  }
}

/// A shell that only reads its script; where it is installed, it must also refuse a broken one.
void expect_read(const std::string& shell, const std::string& script, const std::string& path,
                 const std::string& text) {
  const Ran ran = run_command({"/usr/bin/env", shell, "-n", script}, {});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  std::ofstream(path) << text.substr(0, text.rfind('\'')) << "\n";
  EXPECT_NE(run_command({"/usr/bin/env", shell, "-n", path}, {}).code, 0) << shell;
}

TEST_F(Completion, OfZshIsRead) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh";
  write("_tandem", tandem("completion zsh").out);
  expect_read("zsh", folder() / "_tandem", folder() / "broken", read("_tandem"));
}

TEST_F(Completion, OfFishIsRead) {
  if (!has("fish")) GTEST_SKIP() << "no fish";
  write("tandem.fish", tandem("completion fish").out);
  expect_read("fish", folder() / "tandem.fish", folder() / "broken", read("tandem.fish"));
}

TEST_F(Completion, OfFishOffersChoices) {
  if (!has("fish")) GTEST_SKIP() << "no fish";
  write("tandem.fish", tandem("completion fish").out);
  RunOptions options;
  options.folder = folder();
  const Ran ran =
      run_command({"/usr/bin/env", "fish", "-c",
                   "source tandem.fish; complete -C 'tandem simulate --recompute se'; "
                   "complete -C 'tandem catalog sh'; complete -C 'tandem simulate --sensi'"},
                  options);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("selective"));
  EXPECT_THAT(ran.out, HasSubstr("show"));
  EXPECT_THAT(ran.out, HasSubstr("--sensitivity\t"));
}

}  // namespace
}  // namespace tandem::testing
