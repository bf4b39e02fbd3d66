// Ctrl-C: work ends in good order, and no half-written file remains.

#include "tools/cli/interrupt.h"

#include <barrier>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

class Interrupted : public CommandLine {};

TEST_F(Interrupted, TrainWritesTheTraceOfWhatItDid) {
  write_plan();
  RunOptions options;
  options.interrupt_when = [](const Ran& so_far) {
    return so_far.out.find("step ") != std::string::npos;
  };
  const Ran ran = tandem("train plan.json --steps 500000 --trace trace.json", options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_THAT(ran.err, ::testing::MatchesRegex("error: interrupted after [0-9]+ steps\n"));
  EXPECT_EQ(files(), (Strings{"plan.json", "profile.json", "trace.json"}));
  const Ran check = tandem("trace check trace.json");
  EXPECT_EQ(check.code, 0) << check.out;
  EXPECT_THAT(check.out, ::testing::EndsWith("\ngood\n"));
}

/// There the command has a thread of its own, beside the one that would take the signal and die of
/// it: without a trace, or with 143. The control: the same signals with room, above.
TEST_F(Interrupted, OnASmallStackToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more before a command begins";
  write_plan();
  for (const int signal : {SIGINT, SIGTERM}) {
    RunOptions options;
    options.folder = folder();
    options.signal = signal;
    options.interrupt_when = [](const Ran& so_far) {
      return so_far.out.find("step ") != std::string::npos;
    };
    const Ran ran = run_command(
        {"/bin/sh", "-c",
         "ulimit -s 256; exec " TANDEM_BINARY " train plan.json --steps 500000 --trace trace.json"},
        options);
    EXPECT_FALSE(ran.timed_out) << signal;
    EXPECT_EQ(ran.code, 130) << signal;
    EXPECT_THAT(ran.err, ::testing::MatchesRegex("error: interrupted after [0-9]+ steps\n"));
    EXPECT_EQ(tandem("trace check trace.json").code, 0) << signal;
    std::filesystem::remove(folder() / "trace.json");
  }
}

TEST_F(Interrupted, ReferenceEndsToo) {
  write_plan();
  RunOptions options;
  options.interrupt_when = [](const Ran& so_far) {
    return so_far.out.find("step ") != std::string::npos;
  };
  const Ran ran = tandem("train plan.json --steps 100000000 --reference", options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_THAT(ran.err, ::testing::MatchesRegex("error: interrupted after [0-9]+ steps\n"));
}

TEST_F(Interrupted, ProfileLeavesNoFile) {
  write("model.json", kModel);
  RunOptions options;
  const auto start = std::chrono::steady_clock::now();
  options.interrupt_when = [start](const Ran&) {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(700);
  };
  const Ran ran =
      tandem("profile --model model.json --repetitions 100000 --output profile.json", options);
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_EQ(files(), Strings{"model.json"});
}

TEST_F(Interrupted, SimulateLeavesNoHalfTrace) {
  RunOptions options;
  options.interrupt_when = [this](const Ran&) { return !files().empty(); };
  const Ran ran = tandem(
      "simulate --schedule 1f1b --devices 4 --microbatches 8 --forward 1ms "
      "--backward 2ms --batches 5000 --trace trace.json",
      options);
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_THAT(ran.err, StartsWith("error: interrupted"));
  EXPECT_EQ(files(), Strings{});
}

TEST_F(Interrupted, TheSecondOneKills) {
  // Nobody reads the pipe, so that the first one finds nobody who looks.
  ASSERT_EQ(::mkfifo((folder() / "pipe").c_str(), 0600), 0);
  RunOptions options;
  options.timeout = std::chrono::seconds(20);
  options.interrupts = 40;  // two at once are one
  const auto start = std::chrono::steady_clock::now();
  options.interrupt_when = [start](const Ran&) {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(300);
  };
  const Ran ran = tandem(
      "simulate --schedule 1f1b --devices 1 --microbatches 1 --forward 1ms "
      "--backward 2ms --trace pipe",
      options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_EQ(files(), Strings{"pipe"});
}

/// One that asks nobody: it waits for a pipe that nobody opens.
TEST_F(Interrupted, WhateverItDoesACommandEnds) {
  ASSERT_EQ(::mkfifo((folder() / "pipe").c_str(), 0600), 0);
  RunOptions options;
  options.timeout = std::chrono::seconds(20);
  const auto start = std::chrono::steady_clock::now();
  options.interrupt_when = [start](const Ran&) {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(300);
  };
  const Ran ran = tandem("trace check pipe", options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_EQ(ran.err, "error: interrupted\n");
  EXPECT_EQ(files(), Strings{"pipe"});
}

/// It takes seconds; where none was found before it is interrupted, no file is written.
TEST_F(Interrupted, PlanKeepsTheBestSoFar) {
  RunOptions options;
  options.timeout = std::chrono::seconds(120);
  const auto start = std::chrono::steady_clock::now();
  options.interrupt_when = [start](const Ran&) {
    return std::chrono::steady_clock::now() - start > std::chrono::seconds(3);
  };
  const Ran ran = tandem(
      "plan --model llama-3.1-405b --cluster 128xDGX-H100 --global-batch 2048 --output plan.json",
      options);
  EXPECT_EQ(ran.code, 130) << ran.err;
  const bool found = ran.err == "error: interrupted: this is the best so far\n";
  EXPECT_EQ(files(), found ? Strings{"plan.json"} : Strings{}) << ran.err;
  EXPECT_EQ(ran.out.find("Stopped early: ") != std::string::npos, found) << ran.out;
  EXPECT_THAT(ran.err, StartsWith("error: interrupted"));
}

TEST_F(Interrupted, LongWorkEnds) {
  for (const char* line :
       {"simulate --schedule 1f1b --devices 64 --microbatches 512 --forward 1ms --backward 2ms "
        "--scenarios 1000000 --jitter 5% --json",
        "schedule v-adaptive --devices 64 --microbatches 4000 --forward 1ms --backward-input 1ms "
        "--backward-weight 1ms --transfer 1us"}) {
    RunOptions options;
    options.timeout = std::chrono::seconds(60);
    const auto start = std::chrono::steady_clock::now();
    options.interrupt_when = [start](const Ran&) {
      return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(500);
    };
    const Ran ran = tandem(line, options);
    EXPECT_EQ(ran.code, 130) << line;
    EXPECT_THAT(ran.err, ::testing::StartsWith("error: interrupted")) << line;
  }
}

/// As when a file that several stages read becomes shorter.
[[noreturn]] void fail_in_eight_threads_at_once() {
  char command[] = "tandem", json[] = "--json";
  char* arguments[] = {command, json};
  tools::explain_lost_memory(arguments);
  tools::explain_lost_mappings();
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // a death test looks at stderr alone
  std::barrier together(8);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      std::raise(SIGBUS);
    });
  }
  threads.clear();
  std::abort();
}

TEST(LostMappings, OneOfSeveralThreadsTellsIt) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a handler of its own";
  GTEST_FLAG_SET(death_test_style, "fast");
  for (int i = 0; i < 50; ++i) {
    EXPECT_EXIT(fail_in_eight_threads_at_once(), ::testing::ExitedWithCode(1),
                "^error: [^\n]*\n[{]\"error\": [{][^{}]*[}][}]\n$");
  }
}

}  // namespace
}  // namespace tandem::testing
