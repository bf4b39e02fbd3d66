#include "traces/recorded/recorded_job.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/recordings.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string job_error(const std::string& text) {
  return error_of([&] { parse_recorded_job(text, "m.yaml"); });
}

TEST(RecordedJob, IsReadLineByLine) {
  const RecordedJob job = parse_recorded_job(
      "trial_name: ST  # a comment\nrun_id: 0\n\ndp_size: 2\r\npp_size: 4\nvpp_size: 1", "m.yaml");
  EXPECT_EQ(job.data_parallel, 2);
  EXPECT_EQ(job.pipeline_parallel, 4);
  EXPECT_EQ(job.chunks, 1);
  // Where all degrees are given they multiply to the world size.
  parse_recorded_job("dp_size: 2\npp_size: 4\nworld_size: 32\ntp_size: 2\ndsp_size: 2", "m.yaml");
  EXPECT_EQ(parse_recorded_job("dp_size: 2\nworld_size: 32", "m.yaml").world_size, 32);
  EXPECT_EQ(job.data_sequence_parallel, std::nullopt);
}

TEST(RecordedJob, IsRefusedWhereItIsWrong) {
  EXPECT_EQ(job_error("dp_size: 2\npp_sice: 4"),
            "m.yaml:2:1: error: unknown key \"pp_sice\"; did you mean \"pp_size\"?");
  EXPECT_EQ(job_error(""), "m.yaml:1:1: error: expected lines of `key: value`");
  EXPECT_EQ(job_error("# pp_size: 4\n"), "m.yaml:1:1: error: expected lines of `key: value`");
  EXPECT_EQ(job_error("\xef\xbb\xbfpp_sise: 4"),
            "m.yaml:1:1: error: unknown key \"pp_sise\"; did you mean \"pp_size\"?");
  EXPECT_EQ(job_error("pp_size 4"), "m.yaml:1:1: error: expected `key: value`");
  EXPECT_EQ(job_error("pp_size: 4\npp_size: 4"), "m.yaml:2:1: error: pp_size is given twice");
  EXPECT_EQ(job_error("dp_size: 2\npp_size: 4\nworld_size: 16\ntp_size: 4"),
            "m.yaml:3:1: error: world_size is 16, which is not dp_size · dsp_size · pp_size · "
            "tp_size");
  for (const char* size : {"", "0", "-4", "4x", "4.0", "99999999999999999999", "2000000000"}) {
    EXPECT_EQ(job_error(fmt::format("pp_size: {}", size)),
              "m.yaml:1:1: error: pp_size: expected an integer from 1 to a billion")
        << size;
  }
}

TEST(RecordedJob, ANulIsRefusedWhereItStands) {
  const std::string nul(1, '\0');
  for (const std::string& line :
       {"run_id: a" + nul + "b", "run_id: a" + nul + "# a comment", "#run_id a" + nul}) {
    EXPECT_EQ(job_error("pp_size: 4\n" + line),
              "m.yaml:2:10: error: expected text, found a NUL byte");
  }
  EXPECT_EQ(parse_recorded_job("pp_size: 4\nrun_id: a b", "m.yaml").pipeline_parallel, 4);
}

TEST(RecordedJob, MustBeTheTimelines) {
  Recording recording = recording_of({two_stages({}, 0, 0), two_stages({}, 0, 1)});
  const auto check = [&](const std::string& text) {
    check_job(parse_recorded_job(text + "\n", "m.yaml"), "m.yaml", recording);
  };
  check("dp_size: 2\ndsp_size: 1\npp_size: 2\nvpp_size: 1");
  check("dp_size: 1\ndsp_size: 2\npp_size: 2");
  check("tp_size: 8");  // one rank stands for all of its stage
  recording.ranks = 4;
  check("tp_size: 4");
  check("tp_size: 2\ndsp_size: 2");
  EXPECT_THAT(recording.warnings, IsEmpty());
  check("dp_size: 3\ntp_size: 8");
  EXPECT_THAT(recording.warnings,
              ElementsAre("m.yaml: dp_size is 3, but the timeline has 2 replicas",
                          "m.yaml: tp_size is 8, but the timeline has 4 ranks of a stage"));
  EXPECT_EQ(error_of([&] { check("pp_size: 4\nvpp_size: 2"); }),
            "m.yaml: error: pp_size is 4, but the timeline has 2 stages a replica\n"
            "m.yaml: error: vpp_size is 2, but the timeline has 1 model chunks a stage");
}

TEST(RecordedJob, MayBeCutOff) {
  Recording recording = recording_of({two_stages({}, 0, 0)});
  check_job(parse_recorded_job("pp_size: 2\n", "m.yaml"), "m.yaml", recording);
  EXPECT_THAT(recording.warnings, IsEmpty());
  check_job(parse_recorded_job("pp_size: 2", "m.yaml"), "m.yaml", recording);
  EXPECT_THAT(recording.warnings,
              ElementsAre("m.yaml: the last line has no end: the file may be cut off"));
}

}  // namespace
}  // namespace tandem::testing
