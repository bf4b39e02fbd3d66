#include "traces/recorded_job.h"

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

std::string error(const std::string& text) {
  return error_of([&] { parse_recorded_job(text, "m.yaml"); });
}

TEST(RecordedJob, IsReadLineByLine) {
  const RecordedJob job = parse_recorded_job(
      "trial_name: ST  # a comment\nrun_id: 0\n\ndp_size: 2\r\npp_size: 4\nvpp_size: 1", "m.yaml");
  EXPECT_EQ(job.data_parallel, 2);
  EXPECT_EQ(job.pipeline_parallel, 4);
  EXPECT_EQ(job.chunks, 1);
  EXPECT_EQ(job.data_sequence_parallel, std::nullopt);
}

TEST(RecordedJob, IsRefusedWhereItIsWrong) {
  EXPECT_EQ(error("dp_size: 2\npp_sice: 4"),
            "m.yaml:2:1: error: unknown key \"pp_sice\"; did you mean \"pp_size\"?");
  EXPECT_EQ(error("pp_size 4"), "m.yaml:1:1: error: expected `key: value`");
  for (const char* size : {"", "0", "-4", "4x", "4.0", "99999999999999999999", "2000000000"}) {
    EXPECT_EQ(error(fmt::format("pp_size: {}", size)),
              "m.yaml:1:1: error: pp_size: expected an integer from 1 to a billion")
        << size;
  }
}

TEST(RecordedJob, MustBeTheTimelines) {
  Recording recording = recording_of({two_stages({}, 0, 0), two_stages({}, 0, 1)});
  check_job({.data_parallel = 2, .data_sequence_parallel = 1, .pipeline_parallel = 2, .chunks = 1},
            "m.yaml", recording);
  check_job({.data_parallel = 1, .data_sequence_parallel = 2, .pipeline_parallel = 2, .chunks = {}},
            "m.yaml", recording);
  EXPECT_THAT(recording.warnings, IsEmpty());
  check_job(
      {.data_parallel = 3, .data_sequence_parallel = {}, .pipeline_parallel = {}, .chunks = {}},
      "m.yaml", recording);
  EXPECT_THAT(recording.warnings,
              ElementsAre("m.yaml: dp_size is 3, but the timeline has 2 replicas"));
  EXPECT_EQ(error_of([&] {
              check_job({.data_parallel = {},
                         .data_sequence_parallel = {},
                         .pipeline_parallel = 4,
                         .chunks = 2},
                        "m.yaml", recording);
            }),
            "m.yaml: error: pp_size is 4, but the timeline has 2 stages a replica\n"
            "m.yaml: error: vpp_size is 2, but the timeline has 1 model chunks a stage");
}

}  // namespace
}  // namespace tandem::testing
