// Files that are not what they should be, given to every command that reads one.

#include <string>
#include <vector>

#include <zlib.h>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

/// Each a command line that reads the file "bad".
const Strings& readers() {
  static const Strings kReaders{
      "check bad",
      "simulate bad",
      "simulate plan.json --profile bad",
      "simulate --schedule 1f1b --devices 2 --microbatches 2 --costs bad",
      "train bad --steps 1",
      "profile --model bad --output out.json",
      "plan --profile bad --devices 2 --global-batch 4",
      "plan --profile profile.json --model bad --devices 2 --global-batch 4"};
  return kReaders;
}

class BadFile : public CommandLine {
 protected:
  void SetUp() override { write_plan(); }

  /// Every reader refuses it, at once, where it is wrong.
  void expect_refused(std::string_view content, const std::string& place) const {
    write("bad", content);
    for (const std::string& line : readers()) {
      const Ran ran = tandem(line);
      EXPECT_EQ(ran.code, 3) << line;
      EXPECT_EQ(ran.out, "") << line;
      EXPECT_THAT(ran.err, StartsWith(place)) << line;
      EXPECT_LT(ran.peak_bytes, std::int64_t{1} << 30) << line;
      EXPECT_FALSE(exists("out.json")) << line;
    }
  }

  /// The plan with one part of it replaced, given to check.
  void expect_plan_refused(std::string_view part, std::string_view instead,
                           const std::string& first_line, int code = 3) const {
    write("plan.json", with(plan_text(), part, instead));
    const Ran ran = tandem("check plan.json");
    EXPECT_EQ(ran.code, code) << instead;
    EXPECT_EQ(ran.err.substr(0, ran.err.find('\n')), first_line);
  }
};

TEST_F(BadFile, Missing) {
  for (const std::string& line : readers()) {
    expect_error(line, 3, "bad: error: cannot open: No such file or directory");
  }
}

TEST_F(BadFile, Folder) {
  std::filesystem::create_directory(folder() / "bad");
  for (const std::string& line : readers()) {
    expect_error(line, 3, "bad: error: cannot read: Is a directory");
  }
}

TEST_F(BadFile, Empty) { expect_refused("", "bad:1:1: error: expected an object, found the end"); }

TEST_F(BadFile, Truncated) {
  expect_refused("{\"version\": 1,\n \"model\": {", "bad:2:12: error: expected a key");
}

TEST_F(BadFile, MillionBrackets) {
  expect_refused(std::string(1'000'000, '['),
                 "bad:1:65: error: expected objects and arrays nested at most 64 deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_refused(objects, "bad:1:321: error: expected objects and arrays nested at most 64 deep");
}

TEST_F(BadFile, Binary) {
  expect_refused(std::string(4096, '\0'), "bad:1:1: error: expected text, found a NUL byte");
  expect_refused(with("{\"version\": 1, \"name\": \"x\"}", "x", std::string_view("\0", 1)),
                 "bad:1:25: error: expected text, found a NUL byte");
  expect_refused(
      "\x7f"
      "ELF\x02\x01\x01\xff\xfe",
      "bad:1:");
  expect_refused("\x1f\x8b\x08\x00", "bad:1:2: error: expected UTF-8, found the byte 0x8B");
  expect_refused("\xef\xbb\xbf{}", "bad:1:1: error: starts with a byte order mark");
}

TEST_F(BadFile, NotAnObject) {
  expect_refused("[]", "bad:1:1: error: expected an object, found []");
  expect_refused("null", "bad:1:1: error: expected an object, found null");
  expect_refused("1e999", "bad:1:1: error: expected a number of at most 1.8e308, found 1e999");
}

TEST_F(BadFile, DuplicateAndUnknownKeys) {
  write("bad", with(plan_text(), "\"version\": 1,", "\"version\": 1, \"version\": 1,"));
  EXPECT_THAT(tandem("check bad").err,
              StartsWith("bad:2:15: error: /version: duplicate key \"version\"; the one before is "
                         "on line 2\n\"version\": 1, \"version\": 1,\n              ^~~~~~~~~\n"));
  write("bad", with(plan_text(), "\"depth\"", "\"x-mine\": [1], \"detph\": 2, \"depth\""));
  EXPECT_THAT(tandem("check bad").err,
              StartsWith("bad:6:16: error: /detph: unknown key \"detph\"; did you mean "
                         "\"depth\"?\n"));
  write("bad", with(profile_text(), "\"backend\"", "\"backend\": \"cpu\", \"bakend\""));
  EXPECT_THAT(tandem("simulate plan.json --profile bad").err,
              HasSubstr("unknown key \"bakend\"; did you mean \"backend\"?"));
}

TEST_F(BadFile, AllFaultsAreReported) {
  write("plan.json", with(with(plan_text(), "\"depth\": 2", "\"depth\": \"2\""), "\"adamw\"", "7"));
  const Ran ran = tandem("check plan.json --json");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("plan.json:6:10: error: /depth: expected an integer from 1 to "
                                 "65535, found \"2\"\n\"depth\": \"2\",\n         ^~~\n"));
  EXPECT_THAT(ran.err, HasSubstr("plan.json:11:14: error: /optimizer: expected"));
  EXPECT_EQ(Json::parse(ran.out)["error"]["pointer"], "/depth");
}

TEST_F(BadFile, StagesThatDoNotCoverTheLayers) {
  const std::string stages = "[[0, 3], [3, 6]]";
  expect_plan_refused(stages, "[[0, 3], [4, 6]]",
                      "plan.json:12:20: error: /stages/1: expected a range that starts at layer 3, "
                      "where the stage before ends, found [4, 6]");
  expect_plan_refused(stages, "[[0, 3], [3, 5]]",
                      "plan.json:12:20: error: /stages/1: expected the last stage to end at layer "
                      "6, behind the model's last, found [3, 5]");
  expect_plan_refused(stages, "[[0, 6]]",
                      "plan.json:12:11: error: /stages: expected 2 stages, one for each device of "
                      "the depth, found 1");
  expect_plan_refused(stages, "[[0, 3], [3, 3]]",
                      "plan.json:12:20: error: /stages/1: expected at least one layer, found "
                      "[3, 3]");
}

TEST_F(BadFile, MoreStagesThanLayers) {
  write("plan.json", with(with(plan_text(), "\"depth\": 2", "\"depth\": 7"), "[[0, 3], [3, 6]]",
                          "[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,7]]"));
  const Ran ran = tandem("check plan.json");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("more stages than layers: 7 stages for the model's 6 layers"));
}

TEST_F(BadFile, SchedulesThatCannotServeThePlan) {
  expect_plan_refused("\"2bw\"", "\"2wb\"",
                      "plan.json:4:13: error: /schedule: unknown schedule \"2wb\"; did you mean "
                      "\"2bw\"? (tandem schedule --list shows all)");
  expect_plan_refused("\"2bw\"", "\"terapipe\"",
                      "plan.json:4:13: error: /schedule: schedule terapipe is not in this version "
                      "(tandem schedule --list shows all that are)");
  expect_plan_refused("\"microbatches\": 4", "\"microbatches\": 1",
                      "plan.json:4:13: error: /schedule: 2bw needs at least 2 microbatches a batch "
                      "for 2 devices and 0 extra in flight, found 1: with fewer, a forward would "
                      "need weights that are not made yet (m >= max(p, p - 1 + extra))");
  expect_plan_refused(
      "\"2bw\"", "\"1f1b-v\"",
      "plan.json:12:11: error: /stages: expected 4 stages, one for each chunk of each "
      "device, found 2");
  write("plan.json", with(with(plan_text(), "\"2bw\"", "\"dapple\""), "\"extra_in_flight\": 0",
                          "\"extra_in_flight\": 1"));
  EXPECT_THAT(tandem("check plan.json").err,
              StartsWith("plan.json:9:20: error: /extra_in_flight: schedule 1f1b has no such "
                         "option\n"));
  expect_plan_refused("\"microbatches\": 4", "\"microbatches\": 4, \"replicas\": [1, 1]",
                      "plan.json:8:32: error: /replicas: schedule 2bw has no such option");
}

TEST_F(BadFile, AbsurdSizes) {
  expect_plan_refused("\"microbatches\": 4", "\"microbatches\": 1048576",
                      "plan.json:8:17: error: /microbatches: 1048576 microbatches on 2 stages: "
                      "expected a product of at most 1048576");
  expect_plan_refused("\"microbatches\": 4", "\"microbatches\": 99999999999999999999",
                      "plan.json:8:17: error: /microbatches: expected an integer from 1 to "
                      "1048576, found 99999999999999999999");
  write("bad", "{\"version\": \"" + std::string(std::size_t{17} << 20, 'a') + "\"}");
  expect_error("check bad", 3, "bad: error: larger than 16.0 MiB, the limit here");
}

TEST_F(BadFile, ModelsTooLargeForThisMachineAreInfeasible) {
  const std::string huge = with(plan_text(), "\"width\": 16", "\"width\": 1048576");
  write("plan.json", huge);
  write("model.json", with(std::string(kModel), "\"width\": 16", "\"width\": 1048576"));
  for (const std::string line : {"train plan.json --steps 1", "train plan.json --reference",
                                 "profile --model model.json --output out.json"}) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 4) << line;
    EXPECT_THAT(ran.err, ::testing::MatchesRegex(
                             "error: .* needs .* TiB, but this machine has .* of memory\n"));
    EXPECT_LT(ran.peak_bytes, std::int64_t{1} << 30) << line;
  }
}

TEST_F(BadFile, ModelsBeyondCountingAreInfeasible) {
  write("model.json", R"({"version": 1, "blocks": 10000, "width": 1048576, "heads": 1,
      "sequence": 1048576, "vocabulary": 16777216})");
  for (const std::string size : {"1", "99999"}) {
    const Ran ran = tandem(
        "profile --model model.json --output out.json --devices 1024 "
        "--microbatch-size " +
        size);
    EXPECT_EQ(ran.code, 4) << size;
    EXPECT_THAT(ran.err,
                ::testing::MatchesRegex("error: profiling this model needs [0-9.]+ TiB, but .*"));
  }
}

TEST_F(BadFile, ProfilesOfSomethingElse) {
  write("bad", with(profile_text(), "\"heads\": 2", "\"heads\": 4"));
  expect_error("simulate plan.json --profile bad", 3,
               "error: the profile measured model \"tiny\" (gpt2, width 16, 4 heads, sequence 16, "
               "vocabulary 256), not \"tiny\" (gpt2, width 16, 2 heads, sequence 16, vocabulary "
               "256)");
  write("plan.json", with(plan_text(), "\"profile.json\"", "\"\""));
  expect_error("simulate plan.json", 3,
               "error: plan.json: the plan names no profile: give one with --profile FILE");
  write("plan.json", with(plan_text(), "\"profile.json\"", "\"gone.json\""));
  expect_error("simulate plan.json", 3, "gone.json: error: cannot open: No such file or directory");
}

TEST_F(BadFile, TextToTrainOn) {
  write("empty", "");
  write("short", "hello");
  expect_error("train plan.json --data missing", 3, "error: missing: No such file or directory");
  expect_error("train plan.json --data .", 3, "error: .: Is a directory");
  expect_error("train plan.json --data empty", 3, "error: empty: empty");
  expect_error("train plan.json --data short", 3,
               "error: short: 5 tokens are fewer than the 17 of one sample of model \"tiny\"");
}

std::string compressed(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/compressed.gz";
  gzFile file = gzopen(path.c_str(), "wb1");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// To a parser that takes it for the end, what follows a NUL would be hidden.
TEST_F(BadFile, TracesWithANul) {
  EXPECT_EQ(tandem("simulate plan.json --trace good.json").code, 0);
  const std::string good = read("good.json");
  EXPECT_EQ(tandem("trace check good.json").code, 0);
  EXPECT_EQ(tandem("compare good.json good.json").code, 0);
  const std::string nul(1, '\0');
  for (const std::string& text :
       {good + nul, good + nul + "garbage", nul + good, good + std::string(200'000, ' ') + nul}) {
    write("bad.json", text);
    const std::string all = text.substr(0, text.find('\0'));
    const std::string line = std::to_string(std::count(all.begin(), all.end(), '\n') + 1);
    const std::string column = std::to_string(all.size() - (all.rfind('\n') + 1) + 1);
    const Ran check = tandem("trace check bad.json");
    EXPECT_EQ(check.code, 6);
    EXPECT_THAT(check.out, HasSubstr("bad.json: error: line " + line + ", column " + column +
                                     ": not valid JSON: a NUL byte (U+0000)"));
    const std::string place = "bad.json:" + line + ":" + column;
    for (const std::string command : {"compare bad.json good.json", "replay bad.json"}) {
      const Ran ran = tandem(command);
      EXPECT_EQ(ran.code, 3) << command;
      EXPECT_THAT(ran.err, StartsWith(place + ": error: not valid JSON: a NUL byte (U+0000)"));
    }
  }
}

TEST_F(BadFile, TracesWithBytesBehindOrCutOff) {
  const std::string line = "simulate plan.json --trace good.json.gz";
  EXPECT_EQ(tandem(line).code, 0);
  const std::string good = read("good.json.gz");
  for (const auto& [content, why] : {std::pair{good + "more", "and what follows is not gzip's"},
                                     std::pair{good.substr(0, good.size() - 4), "are cut off"}}) {
    write("bad.json.gz", content);
    EXPECT_THAT(tandem("trace check bad.json.gz").out, HasSubstr(why));
    EXPECT_EQ(tandem("trace check bad.json.gz").code, 6);
    const Ran compared = tandem("compare good.json.gz bad.json.gz");
    EXPECT_EQ(compared.code, 3);
    EXPECT_THAT(compared.err, HasSubstr(why));
    EXPECT_THAT(tandem("replay bad.json.gz").err, HasSubstr(why));
  }
  write("two.json.gz", good + std::string(1024, '\0'));
  EXPECT_EQ(tandem("compare good.json.gz two.json.gz").code, 0);
}

TEST_F(BadFile, Traces) {
  const std::string event = R"({"name":"a","ph":"X","ts":0,"dur":1,"pid":1,"tid":1})";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "bad: error: line 1, column 1: not valid JSON: "},
      {"\n[{\"ph\":", "bad: error: line 2, column "},
      {std::string(1'000'000, '['), "bad: error: /0: nested too deeply"},
      {std::string(4096, '\0'), "bad: error: line 1, column 1: not valid JSON: "},
      {"[\"\xff\"]", "bad: error: line 1, column "},
      {"{}", "bad: error: holds no array of events\n"},
      {"null", "bad: error: holds no array of events\n"},
      {"[[]]", "bad: error: event 0: is not an object\n"},
      {"[" + event + "," + with(event, "\"ts\":0", "\"ts\":1e300") + "]", "bad: error: event 1: "},
      {compressed(std::string(10'000'000, '[')), "bad: error: /0: nested too deeply"},
      {std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage", 17), "bad: error: cannot "}};
  for (const auto& [content, message] : cases) {
    write("bad", content);
    const Ran ran = tandem("trace check bad");
    EXPECT_EQ(ran.code, 6) << content.substr(0, 80);
    EXPECT_THAT(ran.out, HasSubstr(message));
    EXPECT_EQ(ran.err, "");
    EXPECT_LT(ran.peak_bytes, std::int64_t{1} << 30);
    const Ran json = tandem("trace check bad --json");
    EXPECT_EQ(json.code, 6);
    EXPECT_EQ(Json::parse(json.out)["result"]["good"], false);
    const Ran compared = tandem("compare bad bad");
    EXPECT_EQ(compared.code, 3) << content.substr(0, 80);
    EXPECT_THAT(compared.err, StartsWith("bad:"));
  }
  expect_error("trace check missing", 3, "missing: error: no such file");
  expect_error("trace check .", 3, ".: error: is a directory");
}

}  // namespace
}  // namespace tandem::testing
