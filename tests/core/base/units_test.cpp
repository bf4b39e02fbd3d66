#include "core/base/units.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace tandem {
namespace {

std::int64_t nanoseconds(std::string_view text) {
  return parse_duration(text).value_or(Duration{-1}).count();
}

TEST(Units, DurationsAreRoundedOnceToTheNearest) {
  EXPECT_EQ(nanoseconds("18.522ms"), 18'522'000);
  EXPECT_EQ(nanoseconds("2 us"), 2'000);
  EXPECT_EQ(nanoseconds("1s"), 1'000'000'000);
  EXPECT_EQ(nanoseconds("0ns"), 0);
  EXPECT_EQ(nanoseconds("007 ns"), 7);
  EXPECT_EQ(nanoseconds(".5us"), 500);
  EXPECT_EQ(nanoseconds("0.4ns"), 0);
  EXPECT_EQ(nanoseconds("0.5ns"), 1);
  EXPECT_EQ(nanoseconds("1.2344999999999999999999999us"), 1'234);
  EXPECT_EQ(nanoseconds("1.2345us"), 1'235);
  // As a double this is 1.0049999999999999 us.
  EXPECT_EQ(nanoseconds("1.0045us"), 1'005);
}

TEST(Units, DurationsTakeExponents) {
  EXPECT_EQ(nanoseconds("1e-05s"), 10'000);
  EXPECT_EQ(nanoseconds("1.5E3us"), 1'500'000);
  EXPECT_EQ(nanoseconds("12e+2ns"), 1'200);
  EXPECT_EQ(nanoseconds("1e-400s"), 0);
  EXPECT_EQ(nanoseconds("0e9999s"), 0);
  EXPECT_FALSE(parse_duration("1e99999s"));
  EXPECT_FALSE(parse_duration("1e400s"));
}

TEST(Units, DurationsEndAtInt64) {
  EXPECT_EQ(nanoseconds("9223372036854775807ns"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(nanoseconds("9223372036.854775807s"), std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(parse_duration("9223372036854775808ns"));
  EXPECT_FALSE(parse_duration("9223372036854775807.5ns"));
  EXPECT_FALSE(parse_duration("9223372036.854775808s"));
  EXPECT_FALSE(parse_duration(std::string(10'000, '9') + "s"));
}

TEST(Units, WhatIsNoDuration) {
  for (const char* text : {"",     "5",    "ms",    "5.ms",  ".ms",     "-1ms",   "+1ms",  "1 2ms",
                           " 1ms", "1ms ", "1e ms", "1e-ms", "1,5ms",   "0x10ms", "inf s", "nan s",
                           "1MS",  "1m",   "1min",  "1\tms", "1.2.3ms", "1KiB"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration(std::string_view("1ms\0", 4)));
}

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("16GiB"), Bytes{16} << 30);
  EXPECT_EQ(parse_bytes("32 KB"), 32'000);
  EXPECT_EQ(parse_bytes("512 B"), 512);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("0.3KiB"), 307);  // 307.2
  EXPECT_EQ(parse_bytes("0.0005KB"), 1);  // half a byte, up
  EXPECT_EQ(parse_bytes("0.00049KB"), 0);
  EXPECT_EQ(parse_bytes("1TB"), 1'000'000'000'000);
  EXPECT_EQ(parse_bytes("1TiB"), Bytes{1} << 40);
  EXPECT_EQ(parse_bytes("0.0000000000009094947017729282379150390625TiB"), 1);
  EXPECT_EQ(parse_bytes("8388607TiB"), Bytes{8388607} << 40);
  EXPECT_FALSE(parse_bytes("8388608TiB"));
  for (const char* text : {"16", "16G", "16Gb", "16gib", "-1B", "16 Gi B"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Units, Rates) {
  EXPECT_EQ(parse_rate("100Gb/s"), 12.5e9);
  EXPECT_EQ(parse_rate("12.5 GB/s"), 12.5e9);
  EXPECT_EQ(parse_rate("1Kb/s"), 125.0);
  EXPECT_EQ(parse_rate("1KiB/s"), 1024.0);
  EXPECT_EQ(parse_rate("1 GiB/s"), 1073741824.0);
  EXPECT_EQ(parse_rate("7B/s"), 7.0);
  for (const char* text : {"100", "100Gb", "100 Gbps", "1e400GB/s", "1e308GB/s", "-1B/s"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(Units, PrintsDurations) {
  const auto print = [](std::int64_t count) { return print_duration(Duration{count}); };
  EXPECT_EQ(print(0), "0 ns");
  EXPECT_EQ(print(999), "999 ns");
  EXPECT_EQ(print(1'000), "1 us");
  EXPECT_EQ(print(2'100'000), "2.1 ms");
  EXPECT_EQ(print(1'234'567), "1.235 ms");
  EXPECT_EQ(print(999'949), "999.9 us");
  EXPECT_EQ(print(999'950), "1 ms");
  EXPECT_EQ(print(1'050'000'000), "1.05 s");
  EXPECT_EQ(print(12'345'678'000'000), "12346 s");
  EXPECT_EQ(print(-1'500), "-1.5 us");
  EXPECT_EQ(print(std::numeric_limits<std::int64_t>::max()), "9223372037 s");
  EXPECT_EQ(print(std::numeric_limits<std::int64_t>::min()), "-9223372037 s");
}

TEST(Units, PrintsBytes) {
  EXPECT_EQ(print_bytes(0), "0 B");
  EXPECT_EQ(print_bytes(512), "512 B");
  EXPECT_EQ(print_bytes(1023), "1023 B");
  EXPECT_EQ(print_bytes(1024), "1.0 KiB");
  EXPECT_EQ(print_bytes(1536), "1.5 KiB");
  EXPECT_EQ(print_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(print_bytes(Bytes{57} << 30), "57.0 GiB");
  EXPECT_EQ(print_bytes(Bytes{5000} << 40), "5000.0 TiB");
  EXPECT_EQ(print_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(print_bytes(std::numeric_limits<Bytes>::min()), "-8388608.0 TiB");
}

TEST(Units, Seconds) {
  EXPECT_EQ(to_seconds(Duration{1}), 1e-9);
  EXPECT_EQ(to_seconds(Duration{2'500'000'000}), 2.5);
}

}  // namespace
}  // namespace tandem
