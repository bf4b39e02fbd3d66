#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/constants_files.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

constexpr CollectiveConstants kConstants{.launch_s = 4.1e-6,
                                         .node_hop_s = 15.25e-6,
                                         .simple_s = 1.0 / 3e4,
                                         .low_latency_bytes_per_s = 2e9,
                                         .within_node_bytes_per_s = 2.2e11,
                                         .between_nodes_bytes_per_s = 1.5e10};

std::string collectives_error(const std::string& text) {
  return error_of([&] { parse_collectives("c.json", text); });
}

/// The file of the constants with one part replaced.
std::string collectives_error_with(const std::string& part, const std::string& instead) {
  return collectives_error(with(collectives_text(kConstants), part, instead));
}

TEST(CollectivesFile, ReadsBackWhatItWrote) {
  EXPECT_EQ(parse_collectives("c.json", collectives_text(kConstants)), kConstants);
}

TEST(CollectivesFile, RefusesWhatIsNoConstant) {
  EXPECT_THAT(collectives_error_with("\"launch_s\": ", "\"launch_s\": -"),
              HasSubstr("error: /launch_s: "));
  EXPECT_THAT(collectives_error_with("15000000000", "0"),
              HasSubstr("error: /between_nodes_bytes_per_s: "));
  EXPECT_THAT(collectives_error_with("launch_s", "lunch_s"),
              HasSubstr("did you mean \"launch_s\"?"));
  EXPECT_THAT(collectives_error_with("\"version\": 1", "\"version\": 2"), HasSubstr("/version"));
  EXPECT_THAT(collectives_error("{}"), HasSubstr("version"));
  EXPECT_THAT(collectives_error("["), HasSubstr("c.json:1:"));
  EXPECT_EQ(collectives_error(collectives_text(kConstants)), "nothing was thrown");
}

}  // namespace
}  // namespace tandem::testing
