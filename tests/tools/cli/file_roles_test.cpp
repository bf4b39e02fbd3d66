// No command replaces a file that it reads, by whatever name, nor writes two outputs to one file.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "tests/tools/sweep.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

/// A command line that reads `input` and could write what follows it, with text for all its inputs.
struct Line {
  std::string words;
  Strings inputs;
};

const std::vector<Line>& lines() {
  static const std::string cluster =
      " --model model.json --cluster cluster.json --schedule-file order.txt --calibration "
      "calibration.json --collectives sums.json --profile profile.json --costs costs.json";
  static const Strings of_cluster{"model.json", "cluster.json", "order.txt", "calibration.json",
                                  "sums.json",  "profile.json", "costs.json"};
  static const Strings of_plan{"plan.json", "profile.json"};
  static const std::vector<Line> all{
      {"man --output", {}},
      {"simulate plan.json --trace", of_plan},
      {"simulate plan.json --report", of_plan},
      {"simulate" + cluster + " --trace", of_cluster},
      {"train plan.json --steps 1 --data text.txt --validation-data held.txt --trace",
       {"plan.json", "profile.json", "text.txt", "held.txt"}},
      {"train plan.json --steps 1 --data text.txt --validation-data held.txt --log",
       {"plan.json", "profile.json", "text.txt", "held.txt"}},
      {"profile --model model.json --output", {"model.json"}},
      {"plan --model model.json --profile profile.json --schedule-file order.txt --devices 2 "
       "--global-batch 4 --output",
       {"model.json", "profile.json", "order.txt"}},
      {"plan --model model.json --cluster cluster.json --calibration calibration.json --report",
       {"model.json", "cluster.json", "calibration.json"}},
      {"import --from hugging-face model.json --output", {"model.json"}},
      {"import --from nccl-tests one.log two.log --output", {"one.log", "two.log"}},
      {"tokens one.txt two.bin --output", {"one.txt", "two.bin"}},
      {"calibrate rows.csv --cluster cluster.json --output", {"rows.csv", "cluster.json"}},
      {"replay timeline.json --meta meta.yaml --trace", {"timeline.json", "meta.yaml"}},
      {"replay timeline.json --meta meta.yaml --report", {"timeline.json", "meta.yaml"}},
      {"sweep plan.json other.json --csv", {"plan.json", "other.json", "profile.json"}},
      {"sweep plan.json other.json --json-lines", {"plan.json", "other.json", "profile.json"}},
      {"sweep plan.json other.json --resume", {"plan.json", "other.json", "profile.json"}},
      {"sweep plan.json other.json --svg", {"plan.json", "other.json", "profile.json"}},
      {"sweep" + cluster + ",b.json --json-lines", of_cluster},
      {"sweep --costs costs.json,b.json --csv", {"costs.json", "b.json"}},
      {"sweep merge a.jsonl b.jsonl --json-lines", {"a.jsonl", "b.jsonl"}},
      {"sweep merge a.jsonl b.jsonl --csv", {"a.jsonl", "b.jsonl"}},
      {"sweep merge a.jsonl b.jsonl --svg", {"a.jsonl", "b.jsonl"}},
      {"export plan.json --to json --output", {"plan.json"}},
      {"validate simgrid --report", {}}};
  return all;
}

class FileRoles : public SweepCommand {
 protected:
  /// Files of no use but the plans: a file is not replaced, whatever is in it.
  void SetUp() override {
    for (const Line& line : lines()) {
      for (const std::string& input : line.inputs) write(input, "kept " + input);
    }
    write("plan.json", plan_text());
    write("other.json", plan_text());
    std::filesystem::create_directory(folder() / "folder");
  }
  /// Of each file its content.
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> contents;
    for (const std::string& file : files()) {
      if (file != "folder") contents[file] = read(file);
    }
    return contents;
  }
};

/// The names of the options that are declared as outputs somewhere in tools/.
std::set<std::string> output_names() {
  static const std::regex declared("output\\(\\s*\"([a-z-]+)\"");
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(source_folder() / "tools")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (std::sregex_iterator found(text.begin(), text.end(), declared), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

/// A new output has its line above: of each command, by its manual page.
TEST_F(FileRoles, EveryOutputOfEveryCommandHasALine) {
  const std::set<std::string> names = output_names();
  EXPECT_TRUE(names.contains("trace") && names.contains("json-lines"));
  EXPECT_FALSE(names.contains("model")) << "the control: that is an input";
  std::set<std::string> there, covered;
  const Json pages = Json::parse(tandem("man --output folder --json").out)["result"]["pages"];
  for (const Json& page : pages) {
    const std::string file = page["file"], text = page["text"];
    std::string command = file.substr(0, file.size() - 2);
    if (command == "tandem") continue;
    std::ranges::replace(command, '-', ' ');
    for (const std::string& name : names) {
      std::string option = name;
      for (std::size_t at = 0; (at = option.find('-', at)) != std::string::npos; at += 2)
        option.replace(at, 1, "\\-");
      if (text.find("\\-\\-" + option + "\\fR") != std::string::npos)
        there.insert(command.substr(7) + " --" + name);
    }
  }
  // Folders: one that must not be there yet, and one that is read.
  for (const char* folder : {"checkpoint --output", "train --resume"})
    EXPECT_EQ(there.erase(folder), 1U) << folder;
  for (const Line& line : lines()) {
    const std::size_t option = line.words.rfind(" --");
    const bool merge = line.words.starts_with("sweep merge ");
    const std::string command = merge ? "sweep merge" : line.words.substr(0, line.words.find(' '));
    covered.insert(command + line.words.substr(option));
  }
  EXPECT_EQ(covered, there);
}

/// --model and --cluster take names, too, of which there may be no file. The control: there is one.
TEST_F(FileRoles, ANameOfTheCatalogueIsNoFile) {
  const std::string line =
      "simulate --model gpt2 --cluster p3.16xlarge --schedule gpipe --depth 8 --trace ";
  for (const std::string name : {"gpt2", "p3.16xlarge"}) {
    const Ran ran = tandem(line + name);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(exists(name));
  }
  expect_refused(line + "gpt2", 2, "gpt2 would replace ");
}

TEST_F(FileRoles, AnInputIsNotReplaced) {
  const auto before = all();
  for (const Line& line : lines()) {
    for (const std::string& input : line.inputs) {
      const Ran ran = tandem(line.words + " " + input);
      EXPECT_EQ(ran.code, 2) << line.words << " " << input << ran.err;
      EXPECT_THAT(ran.err, HasSubstr(input + " would replace ")) << line.words;
      EXPECT_EQ(ran.out, "") << line.words;
      EXPECT_EQ(all(), before) << line.words << " " << input;
    }
  }
}

TEST_F(FileRoles, ByWhateverName) {
  std::filesystem::create_hard_link(folder() / "plan.json", folder() / "hard");
  std::filesystem::create_symlink("plan.json", folder() / "link");
  const auto before = all();
  for (const std::string name : {"./plan.json", "folder/../plan.json", "hard", "link", "./link"}) {
    for (const std::string line : {"sweep plan.json --json-lines ", "simulate plan.json --trace ",
                                   "train plan.json --steps 1 --log "}) {
      const Ran ran = tandem(line + name);
      EXPECT_EQ(ran.code, 2) << line << name;
      EXPECT_THAT(ran.err, HasSubstr(name + " would replace "));
      EXPECT_EQ(all(), before) << line << name;
    }
  }
}

TEST_F(FileRoles, AShardsFileIsNoInputEither) {
  write("plan1.json", plan_text());
  expect_refused("sweep plan1.json --json-lines plan{shard}.json --shard 1/2", 2,
                 "--json-lines plan1.json would replace ");
  EXPECT_EQ(read("plan1.json"), plan_text());
}

TEST_F(FileRoles, TwoOutputsAreTwoFiles) {
  std::filesystem::create_symlink("new.html", folder() / "link.html");
  const std::string plain =
      "simulate --schedule 1f1b --devices 2 --microbatches 2 --forward 1ms "
      "--backward 2ms";
  for (const std::string name : {"new.html", "./new.html", "folder/../new.html", "link.html"}) {
    expect_refused(plain + " --trace new.html --report " + name, 2, "--trace and --report ");
  }
  EXPECT_FALSE(exists("new.html"));
  EXPECT_EQ(tandem(plain + " --trace trace.json --report new.html").code, 0);
}

/// Neither devices nor pipes are replaced: any number of options may write to them.
TEST_F(FileRoles, DevicesTakeAnyNumber) {
  const Ran ran = tandem(kPlain + " --csv /dev/null --json-lines /dev/null --svg /dev/stdout");
  EXPECT_EQ(ran.code, 0) << ran.err;
}

/// The control: the same lines with an output of another name get as far as their inputs.
TEST_F(FileRoles, OtherFilesAreWritten) {
  for (const Line& line : lines()) {
    const bool page = line.words.ends_with("--report");
    const Ran ran = tandem(line.words + (page ? " new.html" : " new.bin"));
    EXPECT_THAT(ran.err, ::testing::Not(HasSubstr("would replace"))) << line.words;
    for (const std::string& input : line.inputs) {
      const bool is_plan = input == "plan.json" || input == "other.json";
      EXPECT_EQ(read(input), is_plan ? plan_text() : "kept " + input);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
