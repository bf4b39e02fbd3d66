// tandem simulate --schedule A,B,C.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class ScheduleComparison : public CommandLine {};

const std::string kShape = " --devices 4 --microbatches 8 --forward 1ms --backward 2ms";

std::string several(const std::string& names) { return "simulate --schedule " + names + kShape; }

TEST_F(ScheduleComparison, RanksByTheEndlessRunWithTheFiguresOfEach) {
  const Json rows = json_of(several("1f1b,zb-h1,2bw") + " --json")["result"]["schedules"];
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0]["schedule"], "2bw");
  EXPECT_EQ(rows[1]["schedule"], "zb-h1");
  EXPECT_EQ(rows[2]["schedule"], "1f1b");
  for (Json row : rows) {
    const std::string name = row["schedule"];
    row.erase("schedule");
    EXPECT_EQ(row["semantics"], name == "2bw" ? "delayed by one" : "vanilla");
    row.erase("semantics");
    EXPECT_EQ(row, json_of(several(name) + " --json")["result"]) << name;
  }
}

TEST_F(ScheduleComparison, SaysWhereTheFastestChanges) {
  const Json fastest = json_of(several("1f1b,zb-h1,2bw") + " --json")["result"]["fastest"];
  // 2BW needs as many microbatches as devices.
  EXPECT_EQ(fastest, Json::parse(R"([
      {"first_microbatches": 1, "last_microbatches": 3, "schedules": ["zb-h1"]},
      {"first_microbatches": 4, "last_microbatches": 32, "schedules": ["2bw"]}])"));
  EXPECT_THAT(tandem(several("1f1b,zb-h1,2bw")).out, HasSubstr("\n      4 to 32    2bw\n"));
}

TEST_F(ScheduleComparison, SchedulesAlikeAreFastestTogether) {
  const Json fastest = json_of(several("gpipe,flush") + " --json")["result"]["fastest"];
  ASSERT_EQ(fastest.size(), 1);
  EXPECT_EQ(fastest[0]["schedules"], (Json{"1f1b", "gpipe"}));
}

TEST_F(ScheduleComparison, CostsAreThoseOfADevice) {
  const Json rows =
      json_of(several("interleaved,1f1b") + " --chunks 2 --json")["result"]["schedules"];
  EXPECT_EQ(rows[0]["schedule"], "interleaved");
  EXPECT_DOUBLE_EQ(rows[0]["period_s"], 0.0285);  // 8 (F+B) + (p-1)(F+B)/2
  EXPECT_DOUBLE_EQ(rows[1]["period_s"], 0.033);
}

TEST_F(ScheduleComparison, WhatCannotServeIsListedWithTheReason) {
  const std::string shape = " --devices 4 --microbatches 2 --forward 1ms --backward 2ms";
  const Ran ran = tandem("simulate --schedule 2bw,1f1b" + shape);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("\n2bw "));
  const Json rows = json_of("simulate --schedule 2bw,1f1b --json" + shape)["result"]["schedules"];
  EXPECT_EQ(rows[1]["schedule"], "2bw");
  EXPECT_TRUE(rows[1].contains("refused"));
  EXPECT_EQ(tandem("simulate --schedule 2bw,data-parallel" + shape).code, 3);
}

}  // namespace
}  // namespace tandem::testing
