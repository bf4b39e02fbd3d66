#pragma once
// What the tests of sweep share.

#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {

/// Eight configurations at plain costs: two schedules, two numbers of devices, two of microbatches.
inline const std::string kPlain =
    "sweep --schedule 1f1b,2bw --devices 2,4 --microbatches 4,8 --forward 1ms --backward 2ms";

inline std::vector<Json> lines_of(std::string_view text) {
  std::vector<Json> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(Json::parse(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return lines;
}

class SweepCommand : public CommandLine {
 protected:
  std::vector<Json> rows_of(const std::string& line) const {
    const Ran ran = tandem(line + " --json");
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
    std::vector<Json> rows = lines_of(ran.out);
    for (const Json& row : rows) EXPECT_EQ(schema_faults(row), "") << line;
    return rows;
  }

  /// The row as simulate has it: the same config, assumptions, result and warnings, or error.
  void expect_as_simulated(const Json& row) const {
    std::vector<std::string> words{"simulate", "--json"};
    for (const auto& [name, value] : row["options"].items()) {
      if (value.is_boolean()) {
        if (value.get<bool>()) words.push_back("--" + name);
        continue;
      }
      if (name != "plan") words.push_back("--" + name);
      words.push_back(value.get<std::string>());
    }
    const Ran ran = tandem(words);
    Json simulated = Json::parse(ran.out);
    if (row.contains("error")) {
      EXPECT_EQ(simulated["error"], row["error"]) << row["options"];
      EXPECT_EQ(ran.code, row["error"]["code"]);
      return;
    }
    EXPECT_EQ(ran.code, 0);
    simulated["result"].erase("bottlenecks");
    if (simulated["result"].contains("search")) simulated["result"]["search"].erase("seconds");
    for (const char* key : {"config", "assumptions", "result", "warnings"})
      EXPECT_EQ(simulated[key], row[key]) << row["options"] << key;
  }
};

}  // namespace tandem::testing
