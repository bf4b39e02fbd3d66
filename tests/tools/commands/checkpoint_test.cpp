// Checkpoints from the command line: trained, stopped, killed, resumed at another depth, shown,
// verified and averaged.

#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/tandem.h"
#include "tools/print/metrics_server.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;

class CheckpointCommands : public CommandLine {
 protected:
  void SetUp() override { write_plan(); }

  /// A plan of the same profile for so many devices.
  void write_plan_of(const std::string& schedule, int devices, const std::string& path) const {
    json_of(
        fmt::format("plan --profile profile.json --devices {} --global-batch 4 --schedule {} "
                    "--output {} --json",
                    devices, schedule, path));
  }
  std::string weights(const std::string& checkpoint) const {
    return read(checkpoint + "/model.safetensors");
  }
};

TEST_F(CheckpointCommands, ResumeAtAnotherDepthToTheSameBytes) {
  write_plan_of("2bw", 2, "two.json");
  write_plan_of("2bw", 1, "one.json");
  const Json whole = json_of("train two.json --steps 8 --checkpoint whole --json");
  EXPECT_EQ(whole["result"]["checkpoint"], "whole/step-00000008");
  json_of("train two.json --steps 5 --checkpoint part --json");
  const Json rest =
      json_of("train one.json --steps 8 --resume part --checkpoint rest --verify --json");
  EXPECT_EQ(rest["result"]["losses"].size(), 3U);
  EXPECT_EQ(weights("rest/step-00000008"), weights("whole/step-00000008"));
  EXPECT_EQ(read("rest/step-00000008/state.safetensors"),
            read("whole/step-00000008/state.safetensors"));
  const Json reference = json_of("train one.json --steps 8 --resume part --reference --json");
  EXPECT_EQ(reference["result"]["losses"], rest["result"]["losses"]);
  // And in the same folder, the older one of which goes.
  json_of("train one.json --steps 8 --resume part --checkpoint part --keep 1 --json");
  EXPECT_FALSE(fs::exists(folder() / "part/step-00000005"));
  EXPECT_EQ(weights("part/step-00000008"), weights("whole/step-00000008"));
}

TEST_F(CheckpointCommands, ResumeByOtherSemanticsWithANote) {
  write_plan_of("1f1b", 2, "flush.json");
  write_plan_of("2bw", 2, "2bw.json");
  json_of("train flush.json --steps 4 --checkpoint flush --json");
  const Ran ran = tandem("train 2bw.json --steps 8 --resume flush --verify");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("a run by 1f1b"), std::string::npos) << ran.err;
  const Ran seeded = tandem("train flush.json --steps 8 --resume flush --seed 7");
  EXPECT_NE(seeded.err.find("the seed is 7, in the run before 1"), std::string::npos);
}

// T3 of PipeMare: a flush program, then this one from its drained state, as the reference does.
TEST_F(CheckpointCommands, ResumePipeMareFromAFlushProgram) {
  // Four stages, an update a microbatch: forwards of the first read weights three updates old.
  std::string plan = with(plan_text(), "\"sequence\": 16", "\"sequence\": 16, \"tied\": false");
  plan = with(plan, "\"depth\": 2", "\"depth\": 4");
  plan = with(plan, "\"microbatches\": 4", "\"microbatches\": 1");
  plan = with(plan, "[[0, 3], [3, 6]]", "[[0, 2], [2, 3], [3, 5], [5, 6]]");
  plan = with(plan, "[0, 0]", "[0, 0, 0, 0]");
  write("flush.json", with(plan, "\"2bw\"", "\"1f1b\""));
  write("pipemare.json", with(plan, "\"2bw\"", "\"pipemare\""));
  json_of("train flush.json --steps 3 --checkpoint flush --json");
  const std::string train = "train pipemare.json --steps 6 ";
  const Ran ran = tandem(train + "--resume flush --verify");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("a run by 1f1b"), std::string::npos) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\nverified: "));
  const auto losses = [&](const std::string& command) {
    return Json::parse(tandem(command + " --json").out)["result"]["losses"];
  };
  const Json rest = losses(train + "--resume flush");
  EXPECT_EQ(rest.size(), 3U);
  EXPECT_EQ(losses(train + "--resume flush --reference"), rest);
  EXPECT_NE(losses("train flush.json --steps 6 --resume flush"), rest);
  // By pipemare alone there are other weights, older ones, and a δ that goes on.
  json_of("train pipemare.json --steps 3 --checkpoint alone --json");
  EXPECT_NE(losses(train + "--resume alone"), rest);
}

// At a random moment, again and again: what is left is whole, and goes on to the same bytes.
TEST_F(CheckpointCommands, SurviveKills) {
  write_plan_of("2bw", 2, "two.json");
  json_of("train two.json --steps 60 --checkpoint whole --json");
  std::mt19937 random(1);
  for (int kills = 0; kills < 6; ++kills) {
    RunOptions options;
    options.folder = folder();
    options.signal = SIGKILL;
    const std::size_t lines = 3 + random() % 40;
    options.interrupt_when = [&](const Ran& so_far) {
      return static_cast<std::size_t>(std::ranges::count(so_far.out, '\n')) >= lines;
    };
    const bool begun = fs::exists(folder() / "killed");
    std::vector<std::string> command = {
        TANDEM_BINARY,  "train",  "two.json",           "--steps", "60",
        "--checkpoint", "killed", "--checkpoint-every", "1"};
    if (begun) command.insert(command.end(), {"--resume", "killed"});
    const Ran ran = run_command(command, options);
    if (ran.code == 0 || ran.code == 3) break;  // it has come to its end
    EXPECT_EQ(ran.code, 128 + SIGKILL) << ran.err;
    const Ran verified = tandem("checkpoint verify killed");
    if (verified.code != 0) {  // killed before the first
      EXPECT_NE(verified.err.find("no checkpoint here"), std::string::npos) << verified.err;
      fs::remove_all(folder() / "killed");
    }
  }
  if (fs::exists(folder() / "killed"))
    tandem("train two.json --steps 60 --resume killed --checkpoint killed");
  EXPECT_EQ(weights("killed/step-00000060"), weights("whole/step-00000060"));
  for (const auto& entry : fs::directory_iterator(folder() / "killed"))
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
}

TEST_F(CheckpointCommands, AreLeftByARunThatIsInterrupted) {
  RunOptions options;
  options.interrupt_when = [](const Ran& so_far) {
    return so_far.out.find("step") != std::string::npos;
  };
  const Ran ran = tandem(
      "train plan.json --steps 1000000 --checkpoint kept --checkpoint-every 1 --keep 3", options);
  EXPECT_EQ(ran.code, 130) << ran.err;
  const std::size_t said = ran.err.find("the newest checkpoint is kept/step-");
  ASSERT_NE(said, std::string::npos) << ran.err;
  const std::int64_t steps = json_of("checkpoint show kept --json")["result"]["steps"];
  EXPECT_EQ(tandem(fmt::format("train plan.json --resume kept --steps {}", steps + 2)).code, 0);
}

TEST_F(CheckpointCommands, AreShownVerifiedAndAveraged) {
  json_of("train plan.json --steps 4 --checkpoint kept --checkpoint-every 2 --json");
  const Json shown = json_of("checkpoint show kept --json")["result"];
  EXPECT_EQ(shown["steps"], 4);
  EXPECT_EQ(shown["path"], "kept/step-00000004");
  EXPECT_TRUE(shown["planes"].contains("second_moment"));
  EXPECT_EQ(json_of("checkpoint verify kept/step-00000004 --json")["result"], shown);
  EXPECT_EQ(tandem("checkpoint average kept kept/step-00000004 --output mean").code, 0);
  EXPECT_EQ(weights("mean"), weights("kept/step-00000004"));
  EXPECT_EQ(json_of("train plan.json --steps 2 --init mean --json")["result"]["losses"],
            json_of("train plan.json --steps 2 --init kept --json")["result"]["losses"]);
}

// The prediction counts on, as the run does.
TEST_F(CheckpointCommands, ResumedRunsAreTracedBesideTheirPrediction) {
  json_of("train plan.json --steps 2 --checkpoint kept --json");
  json_of("train plan.json --steps 5 --resume kept --trace t.json --with-prediction --json");
  const Json trace = Json::parse(read("t.json"));
  std::map<int, bool> simulated;  // by process
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name")
      simulated[event["pid"]] = event["args"]["name"].get<std::string>().starts_with("simulated");
  }
  std::map<bool, std::set<std::string>> ops;
  for (const Json& event : trace["traceEvents"]) {
    // What links carry is told otherwise where it was measured.
    if (event["ph"] == "X" && event["cat"].get<std::string>().starts_with("compute"))
      ops[simulated.at(event["pid"])].insert(event["name"].dump() + event["args"].dump());
  }
  EXPECT_GT(ops[true].size(), 10U);
  EXPECT_EQ(ops[true], ops[false]);
}

// What the tokens were made by stands in each checkpoint, and goes on into those of the next run.
TEST_F(CheckpointCommands, KeepTheTokenizer) {
  const auto fixture_path = source_folder() / "tests/executor/data/tokenizer/fixtures/llama3.json";
  fs::create_directory(folder() / "words");
  fs::copy_file(fixture_path, folder() / "words/tokenizer.json");
  write("words/tokenizer_config.json", "{}\n");
  write_plan(with(plan_text(), R"("sequence": 16)", R"("sequence": 16, "vocabulary": 608)"));
  write("text.txt", read((source_folder() / "README.md").string()));
  json_of("tokens text.txt --tokenizer words --document-end none --output words.bin --json");
  const std::string train = "train plan.json --data words.bin ";
  json_of(train + "--steps 2 --tokenizer words --checkpoint kept --json");
  json_of(train + "--steps 4 --resume kept --checkpoint more --json");
  EXPECT_TRUE(read("more/step-00000004/tokenizer.json") == read("words/tokenizer.json"));
  EXPECT_EQ(read("more/step-00000004/tokenizer_config.json"), "{}\n");
  EXPECT_EQ(json_of("checkpoint show more --json")["result"]["tokenizer"], "tokenizer.json");
  EXPECT_EQ(json_of("generate more --prompt abc --tokens 4 --json")["result"]["tokens"],
            json_of("generate more/step-00000004 --prompt abc --tokens 4 --tokenizer words "
                    "--json")["result"]["tokens"]);
  const Json by_text = json_of("evaluate more --data text.txt --json")["result"];
  EXPECT_EQ(by_text["loss"], json_of("evaluate more --data words.bin --json")["result"]["loss"]);
  EXPECT_GT(by_text["bits_per_byte"], 0.0);
  // A text is trained on as its tokens.
  EXPECT_EQ(json_of("train plan.json --data text.txt --tokenizer words --json")["result"]["losses"],
            json_of(train + "--json")["result"]["losses"]);
  json_of("checkpoint average kept/step-00000002 more --output mean --json");
  EXPECT_TRUE(read("mean/tokenizer.json") == read("words/tokenizer.json"));
  write("more/step-00000004/tokenizer.json", read("words/tokenizer.json") + " ");
  EXPECT_NE(tandem("checkpoint verify more").err.find("tokenizer.json"), std::string::npos);
  EXPECT_EQ(tandem(train + "--tokenizer nowhere").code, 3);
}

TEST_F(CheckpointCommands, RefuseWhatDoesNotFit) {
  json_of("train plan.json --steps 2 --checkpoint kept --json");
  const auto said = [&](const std::string& line, int code) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, code) << line;
    return ran.err;
  };
  EXPECT_NE(said("train plan.json --steps 2 --resume kept", 3).find("2 steps are trained already"),
            std::string::npos);
  said("train plan.json --resume kept --init kept", 2);
  said("train plan.json --checkpoint-every 2", 2);
  said("train plan.json --reference --checkpoint kept", 2);
  said("train plan.json --resume nowhere", 3);
  said("train plan.json --checkpoint /dev/null/x", 1);
  said("train plan.json --checkpoint kept", 3);
  const tools::MetricsServer other(0);
  said(fmt::format("train plan.json --checkpoint new --metrics {}", other.port()), 1);
  EXPECT_FALSE(fs::exists(folder() / "new"));
  said("checkpoint verify profile.json", 3);
  said("checkpoint average kept", 2);
  said("checkpoint show kept --output x", 2);
  write_plan(with(plan_text(), R"("heads": 2)", R"("heads": 4)"));
  EXPECT_NE(said("train plan.json --steps 3 --resume kept", 3).find("the plan's is"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::testing
