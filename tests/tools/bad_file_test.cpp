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
  void expect_all_refuse(std::string_view content, const std::string& place) const {
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
};

TEST_F(BadFile, Missing) {
  for (const std::string& line : readers()) expect_refused(line, 3, "bad: error: ");
}

TEST_F(BadFile, Folder) {
  std::filesystem::create_directory(folder() / "bad");
  for (const std::string& line : readers()) expect_refused(line, 3, "bad: error: ");
}

TEST_F(BadFile, Empty) { expect_all_refuse("", "bad:1:1: "); }

TEST_F(BadFile, Truncated) { expect_all_refuse("{\"version\": 1,\n \"model\": {", "bad:2:12: "); }

TEST_F(BadFile, MillionBrackets) {
  expect_all_refuse(std::string(1'000'000, '['), "bad:1:65: ");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_all_refuse(objects, "bad:1:321: ");
}

TEST_F(BadFile, Binary) {
  expect_all_refuse(std::string(4096, '\0'), "bad:1:1: ");
  expect_all_refuse(with("{\"version\": 1, \"name\": \"x\"}", "x", std::string_view("\0", 1)),
                    "bad:1:25: ");
  expect_all_refuse(
      "\x7f"
      "ELF\x02\x01\x01\xff\xfe",
      "bad:1:");
  expect_all_refuse("\x1f\x8b\x08\x00", "bad:1:2: ");
  expect_all_refuse("\xef\xbb\xbf{}", "bad:1:1: ");
}

TEST_F(BadFile, NotAnObject) {
  expect_all_refuse("[]", "bad:1:1: ");
  expect_all_refuse("null", "bad:1:1: ");
  expect_all_refuse("1e999", "bad:1:1: ");
}

TEST_F(BadFile, AllFaultsAreReported) {
  write("plan.json", with(with(plan_text(), "\"depth\": 2", "\"depth\": \"2\""), "\"adamw\"", "7"));
  const Ran ran = tandem("check plan.json --json");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, StartsWith("plan.json:6:10: error: /depth: "));
  EXPECT_THAT(ran.err, HasSubstr("\nplan.json:11:14: error: /optimizer: "));
  EXPECT_EQ(Json::parse(ran.out)["error"]["pointer"], "/depth");
}

TEST_F(BadFile, AbsurdSizes) {
  write("bad", "{\"version\": \"" + std::string(std::size_t{17} << 20, 'a') + "\"}");
  expect_refused("check bad", 3, "bad: error: ");
}

TEST_F(BadFile, ModelsTooLargeForThisMachineAreInfeasible) {
  const std::string huge = with(plan_text(), "\"width\": 16", "\"width\": 1048576");
  write("plan.json", huge);
  write("model.json", with(kModel, "\"width\": 16", "\"width\": 1048576"));
  for (const std::string line : {"train plan.json --steps 1", "train plan.json --reference",
                                 "profile --model model.json --output out.json"}) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 4) << line;
    EXPECT_THAT(ran.err, HasSubstr(" TiB")) << line;
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
    EXPECT_THAT(ran.err, HasSubstr(" TiB"));
  }
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
    EXPECT_THAT(check.out, HasSubstr("line " + line + ", column " + column + ": "));
    const std::string place = "bad.json:" + line + ":" + column;
    for (const std::string command : {"compare bad.json good.json", "replay bad.json"}) {
      const Ran ran = tandem(command);
      EXPECT_EQ(ran.code, 3) << command;
      EXPECT_THAT(ran.err, StartsWith(place + ": "));
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
      {"", "line 1, column 1: "},
      {"\n[{\"ph\":", "line 2, column "},
      {std::string(1'000'000, '['), "/0: "},
      {std::string(4096, '\0'), "line 1, column 1: "},
      {"[\"\xff\"]", "line 1, column "},
      {"{}", "bad: error: "},
      {"null", "bad: error: "},
      {"[[]]", "event 0: "},
      {"[" + event + "," + with(event, "\"ts\":0", "\"ts\":1e300") + "]", "event 1: "},
      {compressed(std::string(10'000'000, '[')), "/0: "},
      {std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage", 17), "bad: error: "}};
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
  expect_refused("trace check missing", 3, "missing: ");
  expect_refused("trace check .", 3, ".: ");
}

}  // namespace
}  // namespace tandem::testing
