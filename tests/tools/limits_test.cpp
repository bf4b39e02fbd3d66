// What is beyond the machine is said before the work: memory, time, threads.

#include <algorithm>
#include <chrono>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

/// Without optimization everything takes several times as long.
constexpr double kSlow = TANDEM_UNOPTIMIZED == 1 ? 16 : 1;

class Limits : public CommandLine {
 protected:
  /// A command as a shell runs it, behind `limits`.
  Ran within(const std::string& limits, const std::string& line) const {
    RunOptions options;
    options.folder = folder();
    return run_command({"/bin/sh", "-c", limits + "; exec " TANDEM_BINARY " " + line}, options);
  }
};

TEST_F(Limits, UlimitsCountAsWell) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  write("model.json",
        with(kModel, "\"sequence\": 16", "\"sequence\": 16, \"vocabulary\": 1000000"));
  const Ran ran = within("ulimit -v 600000", "profile --model model.json --devices 2 --output p");
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("585.9 MiB"));
}

/// The addresses that the program itself takes count as well: 175.8 MiB would do.
TEST_F(Limits, APlanLargerThanWhatIsLeftIsRefusedBeforeTheFirstStep) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  write_plan(with(plan_text(), "\"sequence\": 16", "\"sequence\": 16, \"vocabulary\": 200000"));
  const std::string train = "train plan.json --steps 1 --kernels portable --log log.jsonl";
  const Ran ran = within("ulimit -v 180000", train);
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("158.9 MiB"));
  EXPECT_THAT(ran.err, HasSubstr("175.8 MiB"));
  EXPECT_THAT(ran.err, HasSubstr("ulimit -v"));
  EXPECT_FALSE(exists("log.jsonl"));
  EXPECT_EQ(tandem(train).code, 0) << "the control: without a limit";
}

TEST_F(Limits, ALongProfileSaysSo) {
  if (kSanitized) GTEST_SKIP() << "it would take minutes";
  write("model.json", with(kModel, "\"sequence\": 16", "\"sequence\": 100000"));
  RunOptions options;
  options.interrupt_when = [](const Ran& so_far) {
    return so_far.err.find("takes about") != std::string::npos;
  };
  options.interrupts = 2;  // a pass of this one takes long
  const Ran ran = tandem("profile --model model.json --devices 1 --output p.json", options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_THAT(ran.err, HasSubstr("takes about "));
  EXPECT_EQ(files(), std::vector<std::string>{"model.json"});
  // The control: a short one says nothing.
  write("model.json", kModel);
  EXPECT_EQ(tandem("profile --model model.json --devices 1 --repetitions 1 --output p.json").err,
            "");
}

/// Room for some threads' stacks, but not for all: those that did start wait for nobody.
TEST_F(Limits, ThreadsThatDoNotStartEndTheTraining) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  write_plan(with(with(plan_text(), "\"width\": 1,\n", "\"width\": 32,\n"), "\"microbatches\": 4",
                  "\"microbatches\": 2"));
  int refused = 0;
  for (const char* stacks : {"6000000", "20000000", "40000000"}) {
    write("log.jsonl", "of before");
    const Ran ran = within("ulimit -s 1000000; ulimit -v " + std::string(stacks),
                           "train plan.json --steps 1 --watchdog 5s --log log.jsonl");
    EXPECT_FALSE(ran.timed_out) << stacks;
    if (ran.code == 0) continue;
    EXPECT_EQ(read("log.jsonl"), "of before") << stacks;
    EXPECT_EQ(ran.code, 5) << stacks << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("threads")) << stacks;
    ++refused;
  }
  EXPECT_GE(refused, 2);
  EXPECT_EQ(tandem("train plan.json --steps 1 --log log.jsonl").code, 0)
      << "the control: without a limit";
  EXPECT_THAT(read("log.jsonl"), StartsWith("{\"step\""));
}

/// Those that did start would else do all of the work before the others are missed.
TEST_F(Limits, ThreadsThatDoNotStartEndASweep) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  const std::string sweep =
      "sweep --schedule 1f1b --devices 2..41 --microbatches 1..40 --forward 1ms --backward 2ms "
      "--threads 8 --json-lines rows.jsonl";
  constexpr std::ptrdiff_t kAll = 40 * 40;
  const auto lines = [this] {
    const std::string text = read("rows.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  };
  for (const char* stacks : {"3500000", "2300000"}) {
    write("rows.jsonl", "of before");
    const Ran ran = within("ulimit -s 1000000; ulimit -v " + std::string(stacks), sweep);
    EXPECT_EQ(ran.code, 5) << stacks << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("threads")) << stacks;
    EXPECT_LT(lines(), kAll / 2) << stacks;
  }
  EXPECT_EQ(tandem(sweep).code, 0) << "the control: without a limit";
  EXPECT_EQ(lines(), kAll);
}

/// All of it takes many minutes, as an interrupted one shows (tests/tools/cli/interrupt_test.cpp).
TEST_F(Limits, ThreadsThatDoNotStartEndScenarios) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  const std::string line =
      "simulate --schedule 1f1b --devices 64 --microbatches 512 --forward 1ms --backward 2ms "
      "--jitter 5% --threads 8 --scenarios ";
  const Ran ran = within("ulimit -s 1000000; ulimit -v 3500000", line + "1000000");
  EXPECT_FALSE(ran.timed_out);
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("threads"));
  EXPECT_EQ(tandem(line + "4").code, 0) << "the control: without a limit";
}

/// Not even the one that listens to signals.
TEST_F(Limits, NoThreadAtAllIsTold) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  const Ran ran = within("ulimit -s 1000000; ulimit -v 900000", "version");
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("threads"));
  EXPECT_EQ(within("ulimit -v 900000", "version").code, 0) << "the control: small stacks";
}

/// oneDNN's products took more than there was, and what lay beyond were another thread's weights.
TEST_F(Limits, SmallStacksAreEnough) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more before a command begins";
  write_plan();
  const std::string train = "train plan.json --steps 2 --json";
  const Ran ran = within("ulimit -s 128", train);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["result"]["losses"], json_of(train)["result"]["losses"]);
  write("model.json", kModel);
  EXPECT_EQ(within("ulimit -s 128", "profile --model model.json --repetitions 1 --output p").code,
            0);
}

/// Tenfold is what it once took. The control: the search would have gone on.
TEST_F(Limits, ASearchOfALargePipelineKeepsToItsTime) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes longer";
  const Json search = json_of(
      "schedule search --devices 64 --microbatches 512 --activation-cap 33 --forward 5ms "
      "--backward-input 7ms --backward-weight 4ms --transfer 1ms --orders 1000000000000 "
      "--time-limit 500ms --json")["result"]["search"];
  EXPECT_TRUE(search["stopped"]);
  EXPECT_GE(search["seconds"], 0.5);
  EXPECT_LT(search["seconds"], 2.5);
}

/// A look at one order of millions of ops takes a part of a second. That none is made once the time
/// is up, tests/core/base/progress_test.cpp counts.
TEST_F(Limits, ASearchOfAVeryLargePipelineKeepsToItsTime) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes longer";
  const Ran ran = tandem(
      "schedule search --devices 64 --microbatches 16384 --forward 5ms --backward-input 7ms "
      "--backward-weight 4ms --transfer 1ms --time-limit 100ms");
  EXPECT_EQ(ran.code, 0) << ran.err;
  constexpr std::string_view kMark = " orders tried in ";
  const std::size_t at = ran.err.find(kMark);
  ASSERT_NE(at, std::string::npos) << ran.err;
  EXPECT_LT(std::stod(ran.err.substr(at + kMark.size())), 2.1 * kSlow) << ran.err;
}

/// These took 15 seconds to minutes of a processor, v-adaptive more than any test waits for; now at
/// most ten seconds. Not the clock's: others use it as well.
TEST_F(Limits, ACheckOfAVeryLargeClusterTakesSeconds) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes longer";
  const std::string check =
      "check --model gpt3-175b --cluster 2048xp4d.24xlarge --global-batch 4096 --microbatch-size 1 "
      "--schedule ";
  for (const std::string schedule : {"chimera --depth 16 --width 1024", "chimera --depth 64",
                                     "zb-auto --depth 64", "v-adaptive --depth 8"}) {
    RunOptions options;
    options.timeout = std::chrono::minutes(4);
    const Ran ran = tandem(check + schedule, options);
    EXPECT_LT(ran.processor_s, kSlow * 30) << schedule;
    EXPECT_EQ(ran.code, 4) << schedule;
    if (!schedule.starts_with("chimera")) continue;  // orders of others are dear: too few are tried
    EXPECT_THAT(ran.err, HasSubstr("--depth ")) << "the control: plans that fit were looked for";
  }
}

TEST_F(Limits, WithPredictionIsCheckedBeforeTheFirstStep) {
  write_plan();
  std::filesystem::remove(folder() / "profile.json");
  const Ran ran = tandem("train plan.json --steps 1 --trace t.json --with-prediction");
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, StartsWith("profile.json: "));
  EXPECT_EQ(tandem("train plan.json --steps 1 --trace t.json").code, 0) << "it is not needed";
}

/// As long as 292 years, in less than a second of work.
TEST_F(Limits, APredictionBeyondTheClockIsRefusedBeforeTheFirstStep) {
  write_plan();
  std::string days = profile_text();
  for (const char* key : {"forward_ns", "backward_input_ns", "backward_weight_ns"})
    days = std::regex_replace(days, std::regex(std::string("\"") + key + "\": [0-9]+"),
                              std::string("\"") + key + "\": 43200000000000");
  days = std::regex_replace(days, std::regex("\"backward_ns\": [0-9]+"),
                            "\"backward_ns\": 86400000000000");
  write("profile.json", days);
  const std::string train = "train plan.json --trace t.json --log log.jsonl --with-prediction ";
  const Ran ran = tandem(train + "--steps 20000");
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("292 years"));
  EXPECT_FALSE(exists("log.jsonl"));
  EXPECT_EQ(tandem(train + "--steps 2").code, 0) << "the control: a few steps are within it";
}

/// Beside what the stages hold: the spans of a trace, and --verify's hashes and reference.
TEST_F(Limits, WhatATrainingKeepsBesidesCountsToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes more addresses than a limit allows";
  write_plan();
  const std::string train = "train plan.json --kernels portable --log log.jsonl ";
  for (const std::string kept :
       {"--trace t.json", "--trace t.json --with-prediction", "--verify"}) {
    const Ran ran = within("ulimit -v 600000", train + kept + " --steps 400000");
    EXPECT_EQ(ran.code, 4) << kept << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("(ulimit -v)")) << kept;
    EXPECT_FALSE(exists("log.jsonl")) << kept;
    EXPECT_EQ(within("ulimit -v 600000", train + kept + " --steps 2").code, 0) << "the control";
    std::filesystem::remove(folder() / "log.jsonl");
  }
  write_plan(with(plan_text(), "\"sequence\": 16", "\"sequence\": 16, \"vocabulary\": 200000"));
  const Ran alone = within("ulimit -v 180000", train + "--reference --steps 1");
  EXPECT_EQ(alone.code, 4) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("(ulimit -v)"));
  EXPECT_EQ(tandem(train + "--reference --steps 1").code, 0) << "the control: without a limit";
}

TEST_F(Limits, AFileThatShrinksWhileItIsReadIsTold) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a handler of its own";
  write_plan();
  write("text.txt", std::string(1 << 20, 'x'));
  EXPECT_EQ(tandem("train plan.json --steps 3 --data text.txt").code, 0) << "it keeps its size";
  RunOptions options;
  bool shrunk = false;
  options.interrupt_when = [&](const Ran& so_far) {
    if (!shrunk && so_far.out.find("step ") != std::string::npos) {
      std::filesystem::resize_file(folder() / "text.txt", 10);
      shrunk = true;
    }
    return false;
  };
  const Ran ran = tandem("train plan.json --steps 1000000 --data text.txt", options);
  EXPECT_TRUE(shrunk);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("a file became shorter"));
  EXPECT_EQ(ran.out.find("error"), std::string::npos);
}

TEST_F(Limits, WithJsonAFileThatShrinksIsAnObject) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a handler of its own";
  write_plan();
  write("text.txt", std::string(1 << 20, 'x'));
  RunOptions options;
  bool shrunk = false;
  options.interrupt_when = [&](const Ran&) {
    if (!shrunk && exists("log.jsonl") && !read("log.jsonl").empty()) {
      std::filesystem::resize_file(folder() / "text.txt", 10);
      shrunk = true;
    }
    return false;
  };
  const Ran ran =
      tandem("train plan.json --steps 1000000 --data text.txt --log log.jsonl --json", options);
  EXPECT_EQ(ran.code, 1);
  const Json failure = Json::parse(ran.out)["error"];
  EXPECT_EQ(failure["code"], 1);
  EXPECT_THAT(ran.err, HasSubstr(failure["message"].get<std::string>()));
}

}  // namespace
}  // namespace tandem::testing
