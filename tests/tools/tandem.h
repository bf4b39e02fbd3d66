#pragma once
// The command line as a user or a script meets it: the real binary, run as a child in a folder of
// its own, with files of a model so small that it trains in milliseconds.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/json_schema.h"
#include "tests/support/run_command.h"

namespace tandem::testing {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A pipeline of the golden files.
inline const std::string kGolden =
    "simulate --schedule 1f1b --devices 4 --microbatches 8 --forward 1ms --backward 2ms";

/// Six layers: embedding, 2 × (attention, mlp), head.
inline constexpr std::string_view kModel =
    R"({"version": 1, "name": "tiny", "blocks": 2, "width": 16, "heads": 2, "sequence": 16})";

inline std::string profile_text() {
  std::string layers;
  for (const char* kind : {"embedding", "attention", "mlp", "head"}) {
    layers += fmt::format(
        R"({}{{"kind": "{}", "microbatch_size": 1, "forward_ns": 10000, "backward_input_ns": 10000,
    "backward_weight_ns": 10000, "backward_ns": 20000,
    "selective_recompute_ns": 3000, "update_ns": 1000}})",
        layers.empty() ? "" : ",\n  ", kind);
  }
  return fmt::format(R"({{
"version": 1, "machine": "by hand", "date": "2026-11-21", "command": "none", "backend": "cpu",
"model": {}, "optimizer": "adamw", "busy_devices": 2, "instruction_overhead_ns": 0,
"layers": [{}],
"transfers": [{{"bytes": 0, "time_ns": 1000}}]
}}
)",
                     kModel, layers);
}

/// 2bw on two devices, a key a line.
inline std::string plan_text() {
  return fmt::format(R"({{
"version": 1,
"model": {},
"schedule": "2bw",
"width": 1,
"depth": 2,
"microbatch_size": 1,
"microbatches": 4,
"extra_in_flight": 0,
"recompute": "none",
"optimizer": "adamw",
"stages": [[0, 3], [3, 6]],
"profile": "profile.json",
"predicted": {{"period_s": 0.0, "samples_per_s": 0.0, "peak_bytes": [0, 0]}}
}}
)",
                     kModel);
}

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

  /// Fails the test unless the command ends as it should, with this on stderr and nothing else.
  void expect_error(std::string_view line, int code, const std::string& message) const {
    expect_error(tandem(line), code, message, line);
  }
  static void expect_error(const Ran& ran, int code, const std::string& message,
                           std::string_view line) {
    EXPECT_EQ(ran.code, code) << line << "\n" << ran.err;
    EXPECT_EQ(ran.err, message + "\n") << line;
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
