// What is beyond the machine is said before the work: memory, time, threads.

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

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
    const Ran ran = within("ulimit -s 1000000; ulimit -v " + std::string(stacks),
                           "train plan.json --steps 1 --watchdog 5s");
    EXPECT_FALSE(ran.timed_out) << stacks;
    if (ran.code == 0) continue;
    EXPECT_EQ(ran.code, 5) << stacks << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("threads")) << stacks;
    ++refused;
  }
  EXPECT_GE(refused, 2);
  EXPECT_EQ(tandem("train plan.json --steps 1").code, 0) << "the control: without a limit";
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

/// It once took minutes.
TEST_F(Limits, ACheckOfAVeryLargeClusterTakesSeconds) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes longer";
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = tandem(
      "check --model gpt3-175b --cluster 2048xp4d.24xlarge --schedule chimera --depth 16 --width "
      "1024 --global-batch 4096 --microbatch-size 1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("--depth ")) << "the control: plans that fit were looked for";
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
}

}  // namespace
}  // namespace tandem::testing
