// Manual pages: troff that groff takes without a warning, with every option of --help.

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::vector<std::string> kPages{"tandem",        "tandem-calibrate",   "tandem-catalog",
                                      "tandem-check",  "tandem-compare",     "tandem-completion",
                                      "tandem-doctor", "tandem-explain",     "tandem-import",
                                      "tandem-man",    "tandem-plan",        "tandem-profile",
                                      "tandem-replay", "tandem-schedule",    "tandem-simulate",
                                      "tandem-sweep",  "tandem-sweep-merge", "tandem-tokens",
                                      "tandem-trace",  "tandem-train",       "tandem-version"};

/// Lines that are no troff of man(7): macros that there are not, characters that stand for others.
std::vector<std::string> faults_of(const std::string& page) {
  static const std::regex kMacro(R"(\.(TH|SH|SS|TP|PP|B|I|BR)( .*)?)");
  std::vector<std::string> faults;
  std::istringstream lines(page);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    const bool macro = line.starts_with('.') || line.starts_with('\'');
    const bool bad = (macro && !std::regex_match(line, kMacro)) || line.empty() ||
                     line.find_first_of("`^~") != std::string::npos ||
                     (first && !line.starts_with(".TH "));
    if (bad) faults.push_back(line);
  }
  return faults;
}

class Man : public CommandLine {
 protected:
  void SetUp() override { tandem("man --output pages"); }
  std::string page(const std::string& name) const { return read("pages/" + name + ".1"); }
  /// What groff has to say against a file.
  Ran groff(const std::string& path) const {
    RunOptions options;
    options.folder = folder();
    return run_command({"/usr/bin/env", "groff", "-man", "-Tutf8", "-ww", path}, options);
  }
  bool has_groff() const {
    return run_command({"/usr/bin/env", "groff", "--version"}, {}).code == 0;
  }
};

TEST_F(Man, OutputWritesAPageForEachCommand) {
  for (const std::string& name : kPages) {
    EXPECT_EQ(faults_of(page(name)), std::vector<std::string>{}) << name;
    EXPECT_THAT(page(name), HasSubstr("\n.SH EXIT STATUS\n")) << name;
  }
  EXPECT_EQ(files().size(), 1U);  // the folder
  EXPECT_EQ(page("tandem-sweep-merge"), tandem("man sweep merge").out);
  EXPECT_EQ(page("tandem"), tandem("man").out);
}

TEST_F(Man, APageHasEveryOptionOfHelp) {
  static const std::regex kOption(R"(\n  (?:-\w, )?--([a-z0-9-]+))");
  for (const std::string command : {"simulate", "sweep", "train", "plan", "sweep merge", "man"}) {
    const std::string help = tandem(command + " --help").out, text = tandem("man " + command).out;
    std::size_t options = 0;
    for (std::sregex_iterator at(help.begin(), help.end(), kOption), end; at != end; ++at) {
      std::string name = (*at)[1];
      for (std::size_t dash = 0; (dash = name.find('-', dash)) != std::string::npos; dash += 2)
        name.insert(dash, "\\");
      EXPECT_THAT(text, HasSubstr("\\fB\\-\\-" + name + "\\fR")) << command;
      ++options;
    }
    EXPECT_GE(options, 2U) << command;
  }
  EXPECT_THAT(tandem("man simulate").out,
              HasSubstr("\n.SH NAME\ntandem\\-simulate \\- predicts time, memory and bubbles\n"));
}

TEST_F(Man, GroffHasNothingAgainstThem) {
  if (!has_groff()) GTEST_SKIP() << "no groff";
  for (const std::string& name : kPages) {
    const Ran ran = groff("pages/" + name + ".1");
    EXPECT_EQ(ran.code, 0) << name;
    EXPECT_EQ(ran.err, "") << name;
    EXPECT_THAT(ran.out, StartsWith("TANDEM")) << name;
    EXPECT_EQ(ran.out.find('\\'), std::string::npos) << name;  // an escape that was none
  }
  write("bad.1", ".TH A 1\n.SH NAME\na \\- b\n.XY\n");
  EXPECT_NE(groff("bad.1").err, "");
}

TEST_F(Man, FaultsAreFound) {
  EXPECT_EQ(faults_of(".TH A 1\n.XY\n'x\ntext\n\n.B a\na ~ b\n"),
            (std::vector<std::string>{".XY", "'x", "", "a ~ b"}));
  EXPECT_EQ(faults_of("text\n"), std::vector<std::string>{"text"});
}

}  // namespace
}  // namespace tandem::testing
