// tandem validate: no published figure is predicted worse than it was.

#include <cstdlib>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Validate : public CommandLine {};

TEST_F(Validate, PredictsWhatIsOnRecord) {
  // All of them take seconds of a plain build.
  const std::string sets = kSanitized ? "simgrid controllable-memory" : "";
  const Json json = json_of("validate --json --report page.html " + sets);
  EXPECT_EQ(json["result"]["worse"], 0) << json.dump(1);
  for (const Json& set : json["result"]["sets"]) {
    SCOPED_TRACE(set["name"]);
    EXPECT_EQ(set["better"], Json::array());  // record it
    if (std::getenv("TANDEM_DATA") != nullptr || std::getenv("TANDEM_REQUIRE_DATA") != nullptr) {
      EXPECT_EQ(set["not_compared"], Json());
      EXPECT_GT(set["rows"].size(), 1u);
    }
    EXPECT_THAT(read("page.html"), HasSubstr(set["title"].get<std::string>()));
  }
}

TEST_F(Validate, SaysWhatHasNoData) {
  const Ran ran = run_command(
      {"/usr/bin/env", "-u", "TANDEM_DATA", TANDEM_BINARY, "validate", "timeline", "simgrid"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("NOT COMPARED: timeline: TANDEM_DATA names no folder"));
}

TEST_F(Validate, NamesOfSetsAreChecked) {
  expect_refused("validate simgrit", 2, "there is no set \"simgrit\"");
}

}  // namespace
}  // namespace tandem::testing
