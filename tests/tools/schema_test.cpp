// What --json prints is what tools/schemas/ says: each key there, none beside, each of its type.
// json_of() holds all that other tests print against them, too.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/json_schema.h"
#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Schemas : public CommandLine {
 protected:
  void SetUp() override {
    if (!checks_schemas()) {
      if (std::getenv("CI") != nullptr) FAIL() << "no libvalijson-dev";
      GTEST_SKIP() << "no libvalijson-dev";
    }
    write_plan();
    write("model.json", kModel);
  }

  /// Of a command that prints one object, with whatever exit code.
  Json printed(const std::string& line) const {
    Json json = Json::parse(tandem(line + " --json").out);
    EXPECT_EQ(schema_faults(json), "") << line;
    return json;
  }

  static std::vector<Json> lines(const std::string& text) {
    std::vector<Json> all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      all.push_back(Json::parse(text.substr(at, end - at)));
      at = end + 1;
    }
    return all;
  }
};

const std::string kTiny = " --devices 2 --microbatches 4 --forward 1ms --backward 2ms";
const std::string kCluster =
    " --model gpt2 --cluster p3.16xlarge --schedule 1f1b --depth 4 --microbatch-size 2";

TEST_F(Schemas, HoldOfEveryCommand) {
  const std::string plan = "plan --profile profile.json --devices 2 --global-batch 4";
  tandem("simulate plan.json --trace simulated.json --batches 3");
  tandem("train plan.json --steps 3 --trace measured.json");
  write("text.txt", "In the beginning");
  for (const std::string& line :
       {std::string("version"),
        std::string("completion bash"),
        std::string("man simulate"),
        std::string("doctor"),
        std::string("catalog list"),
        std::string("catalog show gpt2-xl"),
        std::string("catalog show DGX-H100"),
        std::string("catalog show V100-SXM2-16GB"),
        std::string("catalog show llama-2-7b"),
        std::string("schedule --list"),
        std::string("schedule 2bw --devices 2 --microbatches 2"),
        std::string("check plan.json --memory 1GiB"),
        "check" + kCluster,
        std::string("simulate plan.json --memory 1GiB --sensitivity --link-rate 1Gb/s"),
        "simulate --schedule 1f1b,2bw,zbv" + kTiny,
        "simulate" + kCluster + " --sensitivity",
        "simulate" + kCluster + " --contention --compute-slowdown 1.2",
        "simulate" + kCluster + " --scenarios 8 --jitter 5% --straggler-rate 1%:1.5x",
        "simulate --schedule 1f1b --activation-bytes 1MiB --slow-device 1:0.8 --straggler 1:1.2 "
        "--degraded-link 0-1:0.5 --transfer 1ms" +
            kTiny,
        "simulate --schedule search" + kTiny,
        "explain idle --device 1 --schedule gpipe" + kTiny,
        plan,
        plan + " --memory 190KiB --output best.json",
        std::string("profile --model model.json --repetitions 1 --output measured-profile.json"),
        std::string("tokens text.txt --output text.bin"),
        std::string("train plan.json --steps 2"),
        std::string("train plan.json --steps 2 --checkpoint kept"),
        std::string("checkpoint show kept"),
        std::string("checkpoint average kept kept --output mean"),
        std::string("train plan.json --steps 2 --validate-every 1 --verify"),
        std::string("compare simulated.json measured.json --fail-over 1000000"),
        std::string("compare simulated.json measured.json --fail-over 0"),
        std::string("trace check simulated.json"),
        std::string("trace check plan.json")}) {
    printed(line);
  }
}

TEST_F(Schemas, HoldOfErrors) {
  for (const std::string& line :
       {std::string("simulate nowhere.json"), std::string("check plan.json --memory 1KiB"),
        std::string("simulate --schedule nonsense"), std::string("train"),
        std::string("plan --profile profile.json --devices 2 --global-batch 4 --memory 1KiB")}) {
    EXPECT_TRUE(printed(line).contains("error")) << line;
  }
}

TEST_F(Schemas, HoldOfEachLineOfSweepsAndLogs) {
  const Ran sweep = tandem(
      "sweep --schedule 1f1b,interleaved --devices 2 --microbatches 3,4 "
      "--forward 1ms --backward 2ms --chunks 2 --group 0,2 --json");
  std::size_t failed = 0;
  for (const Json& line : lines(sweep.out)) {
    EXPECT_EQ(schema_faults(line), "") << line;
    failed += line.contains("error");
  }
  EXPECT_GT(failed, 0U) << sweep.out;
  for (const Json& line : lines(tandem("sweep plan.json --memory 1KiB,1GiB --json").out))
    EXPECT_EQ(schema_faults(line), "") << line;
  tandem("train plan.json --steps 4 --log run.jsonl --validate-every 2");
  const std::vector<Json> logged = lines(read("run.jsonl"));
  EXPECT_EQ(logged.size(), 4U);
  for (const Json& line : logged) EXPECT_EQ(schema_faults("train-log", line), "") << line;
  Json more = logged[0], less = logged[0];
  more["unheard_of"] = 1;
  less.erase("step_s");
  EXPECT_NE(schema_faults("train-log", more), "");
  EXPECT_NE(schema_faults("train-log", less), "");
}

TEST_F(Schemas, AreThereForEveryCommandAndNoOther) {
  std::set<std::string> expected{"common", "train-log"}, found;
  const std::string help = tandem("--help").out;
  for (std::size_t at = help.find("\n  "); at != std::string::npos; at = help.find("\n  ", at + 1))
    expected.insert(help.substr(at + 3, help.find(' ', at + 3) - at - 3));
  expected.erase("explain");
  expected.erase("trace");
  expected.insert({"explain-idle", "trace-check"});
  for (const auto& file : std::filesystem::directory_iterator(source_folder() / "tools/schemas"))
    found.insert(file.path().stem().string());
  EXPECT_EQ(found, expected);
}

/// Each object and value of `json`, one of alike rows: its pointer.
void places(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& all) {
  all.push_back(at);
  if (json.is_array() && !json.empty()) return places(json.front(), at / 0, all);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) places(value, at / key, all);
}

TEST_F(Schemas, RefuseKeysThatAreNewGoneOrOfAnotherType) {
  const Json whole = printed("simulate plan.json --memory 1GiB --sensitivity");
  std::vector<Json::json_pointer> all;
  places(whole, Json::json_pointer(), all);
  EXPECT_GT(all.size(), 60U);
  for (const Json::json_pointer& at : all) {
    Json added = whole, mistyped = whole;
    if (whole[at].is_object()) {
      added[at]["unheard_of"] = 1;
      EXPECT_NE(schema_faults("simulate", added), "") << at;
    }
    if (at.empty()) continue;
    mistyped[at] = Json{{"unheard_of", 1}};
    EXPECT_NE(schema_faults("simulate", mistyped), "") << at;
  }
  for (const char* key : {"/command", "/config", "/config/width", "/result/period_s", "/warnings",
                          "/result/devices/0/busy_s", "/result/sensitivity/rows/0/resource"}) {
    const Json::json_pointer at(key);
    Json gone = whole;
    Json& parent = gone[at.parent_pointer()];
    parent.erase(at.back());
    EXPECT_NE(schema_faults("simulate", gone), "") << key;
  }
}

}  // namespace
}  // namespace tandem::testing
