#include "core/import/nccl_tests.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/data.h"
#include "tests/support/edited_text.h"

namespace tandem::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTwoDevices =
    R"(# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor)
#
# Using devices
#   Rank  0 Pid  63389 on node-000000 device  0 [0x00] A100-SXM4-40GB
#   Rank  1 Pid  63389 on node-000000 device  1 [0x00] A100-SXM4-40GB
#
#                                              out-of-place                  in-place
#       size      count   type  redop    time   algbw   busbw  error    time   algbw   busbw  error
#        (B) (elements)                  (us)  (GB/s)  (GB/s)           (us)  (GB/s)  (GB/s)
        1024        256  float    sum    8.85    0.12    0.12  0e+00    8.59    0.12    0.12  0e+00
  1073741824  268435456  float    sum  5203.1  206.37  206.37    N/A  5183.1  207.16  207.16    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 51.3018
#
)";

/// The log above with one part of it replaced.
std::string two_devices_edited(std::string_view part, std::string_view instead) {
  return with(std::string(kTwoDevices), part, instead);
}

std::string nccl_tests_error(const std::string& text) {
  return error_of([&] { parse_nccl_tests(text, "a.log"); });
}

TEST(NcclTests, ReadsDevicesAndTimes) {
  const NcclTestsLog log = parse_nccl_tests(kTwoDevices, "a.log");
  EXPECT_EQ(log.group, (CollectiveGroup{2, 1, 2, 2}));
  EXPECT_THAT(log.rows,
              ElementsAre(NcclTestsRow{1024, nanoseconds(8850), nanoseconds(8590)},
                          NcclTestsRow{1073741824, nanoseconds(5203100), nanoseconds(5183100)}));
}

TEST(NcclTests, ReadsNewerAndShorterTables) {
  const std::string log = R"(# nccl-tests version 2.17.1
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 0 maxBytes 64 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   7 on alpha device  0 [0000:07:00] NVIDIA H100
#  Rank  1 Group  0 Pid   8 on alpha device  1 [0000:0f:00] NVIDIA H100
#  Rank  2 Group  0 Pid   9 on beta device  0 [0000:07:00] NVIDIA H100
         0         0  float    sum  -1    0.00   0.00   0.00   0   0.00   0.00   0.00   0
   4000000   1000000  float    sum  -1   100.0  40.00  53.33   0   90.0  44.44  59.26   0
   8000000   2000000  float    sum  -1   160.0  50.00  66.67   0
# Avg bus bandwidth    : 1
)";
  const NcclTestsLog read = parse_nccl_tests(log, "a.log");
  EXPECT_EQ(read.group, (CollectiveGroup{3, 2, 1, 1}));
  EXPECT_THAT(read.rows, ElementsAre(NcclTestsRow{4000000, nanoseconds(100000), nanoseconds(90000)},
                                     NcclTestsRow{8000000, nanoseconds(160000)}));
}

TEST(NcclTests, PassesOverMarksAndWhatOthersSay) {
  std::string marked;
  for (const char c : kTwoDevices)
    marked += c == '\n' ? std::string("\r\n[1,0]<stdout>:") : std::string(1, c);
  marked = "[1,0]<stdout>:" + marked;
  const std::size_t host = marked.find("node-0");
  marked.insert(host + 5, "[1,0]<stdout>:");
  marked += "\nnode-0:1:1 [0] NCCL INFO Bootstrap\n[1,0]<stderr>:WARNING: x\n";
  const NcclTestsLog log = parse_nccl_tests(marked, "a.log");
  EXPECT_EQ(log.group, (CollectiveGroup{2, 1, 2, 2}));
  EXPECT_EQ(log.rows, parse_nccl_tests(kTwoDevices, "a.log").rows);
}

TEST(NcclTests, SaysWhichRowIsWrong) {
  EXPECT_THAT(nccl_tests_error(two_devices_edited("  207.16    N/A", "")),
              HasSubstr("a.log:11:1: error: 10 columns: expected size"));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("268435456", "many")),
              HasSubstr("a.log:11:1: error: 12 columns: expected size"));
  EXPECT_THAT(nccl_tests_error(two_devices_edited(" 8.85", "-8.85")),
              HasSubstr("a.log:10:41: error: expected microseconds above 0, found \"-8.85\""));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("8.85", "N/A")), HasSubstr("found \"N/A\""));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("8.85", "inf")), HasSubstr("found \"inf\""));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("206.37", "206.x7")),
              HasSubstr("expected GB/s, found \"206.x7\""));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("1024 ", "99999999999999999999 ")),
              HasSubstr("at most 2^60 bytes"));
  EXPECT_EQ(nccl_tests_error(std::string(kTwoDevices)), "nothing was thrown");
}

TEST(NcclTests, SaysThatTheLogIsCut) {
  for (std::size_t length = 0; length < kTwoDevices.find("# Avg bus"); ++length) {
    const std::string message = nccl_tests_error(std::string(kTwoDevices.substr(0, length)));
    EXPECT_THAT(message, HasSubstr("a.log: error: cut off: it does not end with \"# Avg bus"))
        << length;
  }
}

TEST(NcclTests, SaysWhatIsMissing) {
  EXPECT_THAT(nccl_tests_error(""), HasSubstr("no devices: expected lines such as"));
  EXPECT_THAT(nccl_tests_error("# Rank  0 Pid 1\n# Avg bus bandwidth : 0\n"),
              HasSubstr("a.log:1:1: error: a rank without its host"));
  EXPECT_THAT(nccl_tests_error("# Rank  0 Pid 1 on a device 0\n# Avg bus bandwidth : 0\n"),
              HasSubstr("no measurements"));
  EXPECT_THAT(nccl_tests_error(two_devices_edited("nGpus 2", "nGpus x")),
              HasSubstr("a.log:1:19: error: expected nGpus"));
  EXPECT_THAT(nccl_tests_error(std::string(kTwoDevices) + std::string(kTwoDevices)),
              HasSubstr("a second run: expected one in a log"));
}

TEST(NcclTests, OtherCollectivesAreRefused) {
  // An all-gather's bus carries (n - 1) / n of what the algorithm does.
  EXPECT_THAT(nccl_tests_error(two_devices_edited("206.37  206.37", "206.37  103.19")),
              HasSubstr("busbw is not 1 times algbw, as in an all-reduce of 2 devices: is this a "
                        "log of all_reduce_perf?"));
}

class NcclTestsLogs : public DataTest {};

TEST_F(NcclTestsLogs, AreReadWhole) {
  for (int devices = 1; devices <= 128; devices *= 2) {
    const std::size_t rows = devices <= 8 ? 28 : devices == 16 ? 25 : 23;
    const NcclTestsLog log =
        read_nccl_tests(data_path("nccl_all_reduce/nccl_" + std::to_string(devices) + ".log"));
    const bool one_node = devices <= 8;
    EXPECT_EQ(log.group,
              (CollectiveGroup{devices, one_node ? 1 : devices / 8, one_node ? devices : 8,
                               one_node ? devices : 1}));  // one process, or one a device
    EXPECT_EQ(log.rows.size(), rows) << devices;
  }
}

}  // namespace
}  // namespace tandem::testing
