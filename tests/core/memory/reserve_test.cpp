// What of a device's memory is left, and shares and counts as people write them.

#include "core/memory/reserve.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/base/units.h"
#include "core/text/count_text.h"

namespace tandem {
namespace {

TEST(Reserve, LeavesTheRest) {
  EXPECT_EQ(Reserve{}.usable(1000), 1000);
  EXPECT_EQ((Reserve{.share = 0.06, .bytes = 0}.usable(1000)), 940);
  EXPECT_EQ((Reserve{.share = 0.0, .bytes = 1}.usable(1000)), 999);
  EXPECT_EQ((Reserve{.share = 0.0, .bytes = 1001}.usable(1000)), 0);
  EXPECT_EQ(describe({}), "nothing");
  EXPECT_EQ(describe({.share = 0.06, .bytes = 0}), "6 % of a device's memory");
  EXPECT_EQ(describe({.share = 0.0, .bytes = 2 << 20}), "2.0 MiB of a device's memory");
}

TEST(Percent, NeedsItsSign) {
  EXPECT_EQ(parse_percent("5%"), 0.05);
  EXPECT_EQ(parse_percent("0.5%"), 0.005);
  EXPECT_EQ(parse_percent("0%"), 0.0);
  for (const char* wrong : {"", "%", "5", "5%%", "x%", "-1%", "nan%", "inf%", "5 %", "1e999%"})
    EXPECT_FALSE(parse_percent(wrong).has_value()) << wrong;
}

TEST(Count, HasFourDigits) {
  EXPECT_EQ(print_count(0), "0");
  EXPECT_EQ(print_count(850), "850");
  EXPECT_EQ(print_count(999), "999");
  EXPECT_EQ(print_count(1000), "1 K");
  EXPECT_EQ(print_count(843'520), "843.5 K");
  EXPECT_EQ(print_count(999'949), "999.9 K");
  EXPECT_EQ(print_count(999'960), "1 M");
  EXPECT_EQ(print_count(124'439'808), "124.4 M");
  EXPECT_EQ(print_count(174'591'683'584), "174.6 B");
  EXPECT_EQ(print_count(1'008'000'000'000), "1.008 T");
  EXPECT_EQ(counted(1, "batch"), "1 batch");
  EXPECT_EQ(counted(2, "batch"), "2 batches");
  EXPECT_EQ(counted(3, "process"), "3 processes");
  EXPECT_EQ(counted(0, "entry"), "0 entries");
  EXPECT_EQ(counted(1000, "step"), "1000 steps");
  EXPECT_EQ(print_count(std::numeric_limits<std::int64_t>::max()), "9.223e+06 T");
}

}  // namespace
}  // namespace tandem
