// Measured iterations as CSV: our columns, vTrain's, and diagnostics that point at a cell.

#include "core/import/iterations.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/data.h"

namespace tandem::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

constexpr std::string_view kNames =
    "blocks,hidden,heads,sequence,tensor,width,depth,microbatch_size,global_batch,time_ms\n";

std::string iterations_error(const std::string& text) {
  return error_of([&] { parse_iterations(text, "a.csv"); });
}

std::string row_error(const std::string& row) {
  return iterations_error(std::string(kNames) + row);
}

TEST(Iterations, ReadsOurColumnsInAnyOrder) {
  const auto rows = parse_iterations(
      "time_ms,depth,width,tensor,devices,global_batch,microbatch_size,blocks,heads,hidden,"
      "sequence,vocabulary,schedule,recompute\r\n"
      "\n"
      "218.592554, 2,3,4,24, 24,2, 12,16,1024,512,51200,gpipe,full\r\n",
      "a.csv");
  ASSERT_EQ(rows.size(), 1U);
  const MeasuredIteration& row = rows[0];
  EXPECT_EQ(row.time, nanoseconds(218'592'554));
  EXPECT_EQ(row.tensor, 4);
  EXPECT_EQ(row.width, 3);
  EXPECT_EQ(row.depth, 2);
  EXPECT_EQ(row.devices(), 24);
  EXPECT_EQ(row.microbatch_size, 2);
  EXPECT_EQ(row.microbatches, 4);
  EXPECT_EQ(row.model.blocks, 12);
  EXPECT_EQ(row.model.heads, 16);
  EXPECT_EQ(row.model.width, 1024);
  EXPECT_EQ(row.model.sequence, 512);
  EXPECT_EQ(row.model.vocabulary, 51200);
  EXPECT_EQ(row.schedule, "gpipe");
  EXPECT_EQ(row.recompute, Recompute::full);
}

TEST(Iterations, ReadsVTrainsColumns) {
  const auto rows = parse_iterations(
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
      "8,32,1,1024,16,24,1024,2,2,2,727.973351\n",
      "a.csv");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].microbatches, 16);
  EXPECT_EQ(rows[0].model.vocabulary, 50257);
  EXPECT_EQ(rows[0].schedule, "1f1b");
  EXPECT_EQ(rows[0].recompute, Recompute::none);
  EXPECT_EQ(rows[0].time, nanoseconds(727'973'351));
}

/// As spreadsheets write it.
TEST(Iterations, AByteOrderMarkIsNoneOfTheNames) {
  const std::string text = "devices,time_ms\n";
  EXPECT_EQ(iterations_error("\xef\xbb\xbf" + text), iterations_error(text));
  EXPECT_NE(iterations_error("\xef\xbb\xbf\xef\xbb\xbf" + text), iterations_error(text));  // one is
}

TEST(Iterations, WrongColumnsAreNamed) {
  EXPECT_THAT(iterations_error(""), HasSubstr("no column names"));
  const std::string wrong = iterations_error("blocks,hidden,blocks,depht\n");
  EXPECT_THAT(wrong, HasSubstr("a.csv:1:15: error: column blocks a second time"));
  EXPECT_THAT(wrong, HasSubstr("a.csv:1:22: error: unknown column \"depht\""));
  EXPECT_THAT(wrong, HasSubstr("no column depth (\"pipeline parallelism\")"));
  EXPECT_THAT(iterations_error(std::string(kNames)), HasSubstr("no rows"));
}

TEST(Iterations, WrongCellsAreNamedAllAtOnce) {
  const std::string wrong = row_error(
      "24,1024,16,1024,2,1,2,4,16,0\n"
      "24,1024,16,1024,2,1,2,4,16\n"
      "24,1024,16,x,2,1,2,4,16,5\n");
  EXPECT_THAT(wrong, HasSubstr("a.csv:2:28: error: expected milliseconds above 0, found \"0\""));
  EXPECT_THAT(wrong, HasSubstr("a.csv:3:1: error: 9 cells: expected 10"));
  EXPECT_THAT(wrong, HasSubstr("a.csv:4:12: error: "));
}

TEST(Iterations, DegreesMustComeOutEven) {
  EXPECT_THAT(row_error("24,1000,16,1024,2,1,2,4,16,5\n"),
              HasSubstr("hidden 1000: expected a multiple of heads 16"));
  EXPECT_THAT(row_error("24,1024,16,1024,3,1,2,4,16,5\n"),
              HasSubstr("heads 16: expected a multiple of tensor 3"));
  EXPECT_THAT(row_error("24,1024,16,1024,2,1,5,4,16,5\n"),
              HasSubstr("blocks 24: expected a multiple of depth 5"));
  EXPECT_THAT(row_error("24,1024,16,1024,2,3,2,4,16,5\n"),
              HasSubstr("a batch of 16 is not 1 to 65535 times 3 pipelines of microbatches of 4"));
  const std::string devices = "devices," + std::string(kNames);
  EXPECT_THAT(iterations_error(devices + "8,24,1024,16,1024,2,1,2,4,16,5\n"),
              HasSubstr("a.csv:2:1: error: 8 devices: expected tensor x width x depth, 4"));
  EXPECT_EQ(parse_iterations(devices + "4,24,1024,16,1024,2,1,2,4,16,5\n", "a").size(), 1U);
}

TEST(Iterations, SchedulesAndRecomputationMustBeKnown) {
  const std::string names = "schedule,recompute," + std::string(kNames);
  const std::string row = ",24,1024,16,1024,2,1,2,4,16,5\n";
  EXPECT_EQ(parse_iterations(names + "gpipe,selective" + row, "a").size(), 1U);
  EXPECT_THAT(iterations_error(names + "1f2b,none" + row), HasSubstr("found \"1f2b\""));
  EXPECT_THAT(iterations_error(names + "zb-1p,none" + row), HasSubstr("ordered by no costs"));
  EXPECT_THAT(iterations_error(names + "1f1b,some" + row),
              HasSubstr("expected none|selective|full|uniform:N|blocks:N|stage, found \"some\""));
}

class VTrain : public DataTest {};

TEST_F(VTrain, RowsAreRead) {
  const auto rows = read_iterations(data_path("vtrain/ground_truth_single_half.csv"));
  EXPECT_EQ(rows.size(), 720U);
}

}  // namespace
}  // namespace tandem::testing
