// Outputs that can't be written: a full disk, a folder that isn't there, a closed stream.

#include <string>
#include <vector>

#include <sys/stat.h>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

const std::string kProfile = "profile --model model.json --repetitions 1 --output ";
const std::string kPlan = "plan --profile profile.json --devices 2 --global-batch 4 --output ";

class Output : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    write("model.json", kModel);
  }
  void TearDown() override {
    EXPECT_EQ(files(), (Strings{"model.json", "plan.json", "profile.json"}));
  }
  static Strings outputs() {
    return {kGolden + " --trace ", "simulate plan.json --trace ",
            "train plan.json --steps 1 --trace ", kProfile, kPlan};
  }
  Ran onto(const std::string& line, const std::string& out, const std::string& err = "") const {
    RunOptions options;
    options.out_to = out;
    options.err_to = err;
    return tandem(line, options);
  }
};

TEST_F(Output, FullDisk) {
  for (const std::string& line : outputs()) {
    const Ran ran = tandem(line + "/dev/full");
    EXPECT_EQ(ran.code, 1) << line;
    EXPECT_THAT(ran.err, StartsWith("error: /dev/full: ")) << line;
  }
}

TEST_F(Output, FolderThatIsNotThere) {
  for (const std::string& line : outputs()) {
    const Ran ran = tandem(line + "no/such/folder/x.json");
    EXPECT_EQ(ran.code, 1) << line;
    EXPECT_EQ(ran.out, "") << line << ": before the work, not after";
    EXPECT_THAT(ran.err, StartsWith("error: no/such/folder/x.json: "));
  }
}

TEST_F(Output, NotAFile) {
  for (const std::string& line : outputs()) {
    const Ran folder = tandem(line + ".");
    EXPECT_EQ(folder.code, 1) << line;
    EXPECT_THAT(folder.err, StartsWith("error: .: ")) << line;
    const Ran file = tandem(line + "plan.json/x.json");
    EXPECT_EQ(file.code, 1) << line;
    EXPECT_THAT(file.err, StartsWith("error: plan.json/x.json: ")) << line;
  }
}

TEST_F(Output, StandardOutputOnAFullDisk) {
  const std::string message = "error: standard output: cannot write\n";
  // Little, much, a table, a result object, the object of an error.
  for (const std::string& line :
       {std::string("version"), std::string("schedule gpipe --devices 99 --microbatches 999"),
        std::string("schedule --list"), std::string("--help"), std::string("train --help"),
        kGolden + " --json", kGolden, std::string("simulate plan.json"),
        std::string("train plan.json --steps 2")}) {
    const Ran ran = onto(line, "/dev/full");
    EXPECT_EQ(ran.code, 1) << line;
    EXPECT_EQ(ran.err, message) << line;
  }
  const Ran ran = onto("check missing.json --json", "/dev/full");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err,
              ::testing::AllOf(StartsWith("missing.json: "), ::testing::EndsWith(message)));
}

/// A link stands for /dev/stdout, which is one to the same place.
TEST_F(Output, RedirectsAreAddedTo) {
  std::filesystem::create_symlink("/proc/self/fd/1", folder() / "stdout");
  RunOptions options;
  options.folder = folder();
  const auto in_shell = [&](const std::string& lines) {
    const Ran ran = run_command({"/bin/sh", "-c", "t=" TANDEM_BINARY "; " + lines}, options);
    EXPECT_EQ(ran.code, 0) << lines << ran.err;
    EXPECT_TRUE(std::filesystem::is_symlink(folder() / "stdout")) << lines;
    const std::string written = read("k");
    std::filesystem::remove(folder() / "k");
    return written;
  };
  const auto has_twice = [](const std::string& text, const std::string& part) {
    const std::size_t first = text.find(part);
    return first != std::string::npos && text.find(part, first + 1) != std::string::npos;
  };
  for (const std::string& line :
       {std::string("import --from hugging-face model.json"),
        std::string("import --from hugging-face model.json --output stdout"), kPlan + "stdout",
        kGolden + " --trace stdout",
        std::string(
            "sweep --schedule 1f1b --devices 4 --microbatches 8,9 --forward 1ms --backward 2ms "
            "--json-lines stdout --csv stdout2")}) {
    std::filesystem::remove(folder() / "stdout2");
    std::filesystem::create_symlink("stdout", folder() / "stdout2");
    const std::string once = in_shell("$t " + line + " > k");
    ASSERT_GT(once.size(), 20U) << line;
    const std::string part = once.substr(0, 20);
    const std::string added = in_shell("echo old > k; $t " + line + " >> k");
    EXPECT_THAT(added, StartsWith("old\n" + part)) << line;
    EXPECT_TRUE(has_twice(in_shell("{ $t " + line + "; $t " + line + "; } > k"), part)) << line;
  }
  std::filesystem::remove(folder() / "stdout");
  std::filesystem::remove(folder() / "stdout2");
  EXPECT_EQ(onto("import --from hugging-face model.json", "/dev/full").code, 1);
}

TEST_F(Output, StandardErrorOnAFullDisk) {
  for (const std::string err : {"/dev/full", "-"}) {
    EXPECT_EQ(onto("check missing.json", "", err).code, 3);
    EXPECT_EQ(onto("nonsense", "", err).code, 2);
    EXPECT_EQ(onto("version", "", err).code, 0);
    EXPECT_EQ(onto("version", "/dev/full", err).code, 1);
  }
}

TEST_F(Output, ClosedStandardOutputIsNotTheNextFile) {
  const Ran ran = onto(kGolden + " --trace trace.json", "-");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, StartsWith("error: standard output: "));
  EXPECT_EQ(tandem("trace check trace.json").code, 0);
  std::filesystem::remove(folder() / "trace.json");
}

TEST_F(Output, WhatWasThereStaysWhenWritingFails) {
  const std::string before = read("plan.json");
  EXPECT_EQ(tandem(kPlan + "plan.json --memory 1KiB").code, 4);
  EXPECT_EQ(read("plan.json"), before);
}

/// Two at once, each of whose traces takes several writes. The control: alone, each writes its own.
TEST_F(Output, OfTwoProcessesOneFileIsWhole) {
  const std::string line = "simulate --schedule 1f1b --devices 8 --microbatches 64 --forward 1ms ";
  const std::vector<std::string> lines{line + "--backward 2ms --trace ",
                                       line + "--backward 3ms --trace "};
  std::vector<std::string> alone;
  for (const std::string& one : lines) {
    EXPECT_EQ(tandem(one + "trace.json").code, 0);
    alone.push_back(read("trace.json"));
  }
  EXPECT_NE(alone[0], alone[1]);
  std::filesystem::remove(folder() / "trace.json");
  const std::string both =
      fmt::format("{0} {1}trace.json & one=$!; {0} {2}trace.json & wait $one && wait $!",
                  TANDEM_BINARY, lines[0], lines[1]);
  RunOptions options;
  options.folder = folder();
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(run_command({"/bin/sh", "-c", both}, options).code, 0);
    EXPECT_THAT(read("trace.json"), ::testing::AnyOf(alone[0], alone[1])) << "it is cut or mixed";
    std::filesystem::remove(folder() / "trace.json");
    EXPECT_EQ(files(), (Strings{"model.json", "plan.json", "profile.json"})) << "nothing beside it";
  }
}

TEST_F(Output, NamesMayBeAnyBytes) {
  const Ran ran = tandem({"simulate", "plan.json", "--trace", "\xff.json", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(tandem({"trace", "check", "\xff.json"}).code, 0);
  std::filesystem::rename(folder() / "plan.json", folder() / "\xfe.json");
  for (const Strings& line :
       {Strings{"simulate", "\xfe.json", "--trace", "\xff.json"},
        Strings{"train", "\xfe.json", "--steps", "1", "--json", "--trace", "\xff.json"},
        Strings{"check", "\xfe.json", "--json"}}) {
    EXPECT_EQ(tandem(line).code, 0) << line[0];
  }
  const Ran profile =
      tandem({"profile", "--model", "model.json", "--repetitions", "1", "--output", "\xff.json"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_EQ(tandem({"simulate", "\xfe.json", "--profile", "\xff.json"}).code, 0);
  std::filesystem::rename(folder() / "\xfe.json", folder() / "plan.json");
  std::filesystem::remove(folder() / "\xff.json");
}

}  // namespace
}  // namespace tandem::testing
