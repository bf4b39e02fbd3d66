#pragma once
// The command line as a user or a script meets it: the real binary, run as a child in a folder of
// its own, with files of a model so small that it trains in milliseconds.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/json_schema.h"
#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A pipeline of the golden files.
inline const std::string kGolden =
    "simulate --schedule 1f1b --devices 4 --microbatches 8 --forward 1ms --backward 2ms";

/// A file of tests/tools/files.
inline std::string fixture(const std::string& name) {
  std::ifstream file(source_folder() / "tests/tools/files" / name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Six layers: embedding, 2 × (attention, mlp), head.
inline const std::string kModel = fixture("model.json");

inline std::string profile_text() { return fixture("profile.json"); }

/// 2bw on two devices, a key a line.
inline std::string plan_text() { return fixture("plan.json"); }

/// `text` with one part of it, which must be there, replaced.
inline std::string with(std::string text, std::string_view part, std::string_view instead) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), instead);
}

class CommandLine : public ::testing::Test {
 protected:
  Ran tandem(const std::vector<std::string>& arguments, RunOptions options = {}) const {
    std::vector<std::string> command{TANDEM_BINARY};
    command.insert(command.end(), arguments.begin(), arguments.end());
    if (options.folder.empty()) options.folder = folder();
    const Ran ran = run_command(command, options);
    EXPECT_FALSE(ran.timed_out) << fmt::format("{}", fmt::join(command, " "));
    return ran;
  }

  /// A command line in one string, cut at spaces.
  Ran tandem(std::string_view line, RunOptions options = {}) const {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      if (end > at) words.emplace_back(line.substr(at, end - at));
      at = end + 1;
    }
    return tandem(words, std::move(options));
  }
  Ran tandem(const char* line, RunOptions options = {}) const {
    return tandem(std::string_view(line), std::move(options));
  }

  /// Fails the test unless the command ends with this code, prints nothing on stdout, and names
  /// `place` on stderr: a file's line and column, an option, a number. tests/tools/messages holds
  /// the messages themselves.
  void expect_refused(std::string_view line, int code, const std::string& place) const {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, code) << line << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(place)) << line;
    EXPECT_EQ(ran.out, "") << line;
  }

  /// The one object on stdout of a command that ended well.
  Json json_of(std::string_view line) const {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
    EXPECT_EQ(ran.err, "") << line;
    Json json = Json::parse(ran.out);
    EXPECT_EQ(schema_faults(json), "") << line;
    return json;
  }

  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder() / name, std::ios::binary) << text;
  }
  void write_plan(std::string_view plan = plan_text()) const {
    write("profile.json", profile_text());
    write("plan.json", plan);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder() / name); }
  /// What is in the folder, in order.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

}  // namespace tandem::testing
