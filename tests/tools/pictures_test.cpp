// No schedule lacks a picture in core/schedules/README.md. That they are what the tool draws is
// documents_test's.

#include <string>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Pictures : public CommandLine {};

std::string schedules_readme() {
  std::ifstream file(testing::source_folder() / "core/schedules/README.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Pictures, ShowEverySchedule) {
  const std::string readme = schedules_readme();
  const Json listed = json_of("schedule --list --json");
  for (const Json& row : listed["result"]["schedules"]) {
    const std::string name = row["name"];
    if (name.starts_with("probe-")) continue;
    const std::size_t section = readme.find("\n### " + name + "\n");
    ASSERT_NE(section, std::string::npos) << name;
    const std::size_t next = readme.find("\n### ", section + 1);
    EXPECT_THAT(readme.substr(section, next - section), HasSubstr(" " + name + " --devices "));
  }
}

}  // namespace
}  // namespace tandem::testing
