#include "core/program/cost.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

TEST(Price, AsksOnceForEachKey) {
  const Program program = program_of(pipeline("2bw", 4, 16));
  std::map<CostKey, int> asked;
  const CostTable table = price(program, [&](const CostKey& key) {
    return Duration(100 * ++asked[key] + static_cast<int>(index(key.replica)));
  });
  EXPECT_EQ(asked.size(), program.cost_keys().size());
  EXPECT_EQ(table.size(), program.cost_keys().size());
  for (const CostId id : ids(table)) {
    EXPECT_EQ(table[id], Duration(100 + static_cast<int>(index(program.cost_keys()[id].replica))));
  }
}

TEST(Price, TellsOfTheWidthOnlyWhereItMatters) {
  Pipeline wanted = pipeline("gpipe", 2, 2);
  wanted.request.width = 8;
  const Program program = program_of(wanted);
  for (const CostKey& key : program.cost_keys()) {
    EXPECT_EQ(key.width, key.kind == OpKind::reduce_gradient ? 8 : 1);
  }
}

TEST(TransmissionTime, IsBytesByTheRate) {
  EXPECT_EQ(transmission_time(131072, 125e6), Duration(1'048'576));  // 1 Gb/s
  EXPECT_EQ(transmission_time(0, 1.0), Duration(0));
}

TEST(PriceDeathTest, RefusesNegativeTimes) {
  const Program program = program_of(pipeline("gpipe", 1, 1));
  EXPECT_DEATH(price(program, [](const CostKey&) { return Duration(-1); }), "time.count");
}

}  // namespace
}  // namespace tandem::testing
