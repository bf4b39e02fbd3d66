// No command replaces a file that it reads, by whatever name, nor writes two outputs to one file.

#include <map>
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
      {"sweep merge a.jsonl b.jsonl --csv", {"a.jsonl", "b.jsonl"}}};
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
