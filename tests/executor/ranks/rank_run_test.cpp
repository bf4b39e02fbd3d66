// The same program over several ranks: every bit is that of one process, whatever is where.

#include "executor/ranks/rank_run.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelines.h"
#include "tests/support/rank_threads.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::RankEnd;
using testing::RankThreads;
using testing::TrainingCase;

TrainingReport<float> train_in_one_process(const TrainingCase& test, const Program& program) {
  const Data data = testing::data_of(test);
  return train_on_cpu<float>(program, testing::setup_of<float>(test, program, data));
}

void expect_same_run(const std::vector<RankEnd>& ends, const TrainingReport<float>& alone) {
  std::map<std::string, std::vector<float>> weights;
  for (const RankEnd& end : ends) {
    ASSERT_EQ(end.error, "");
    for (const NamedTensor<float>& tensor : end.report.weights)
      weights[tensor.name] = tensor.values;
  }
  const TrainingReport<float>& first = ends.front().report;
  EXPECT_EQ(first.losses, alone.losses);
  EXPECT_EQ(weights.size(), alone.weights.size());
  for (const NamedTensor<float>& tensor : alone.weights)
    EXPECT_EQ(weights[tensor.name], tensor.values) << tensor.name;
  EXPECT_EQ(first.high_water, alone.high_water);
  ASSERT_EQ(first.timelines.size(), alone.timelines.size());
  for (std::size_t i = 0; i < alone.timelines.size(); ++i)
    EXPECT_EQ(first.timelines[i].spans.size(), alone.timelines[i].spans.size());
}

class RanksOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Schedules, RanksOf, ::testing::ValuesIn(testing::schedule_names()),
                         testing::test_name);

TEST_P(RanksOf, TrainWhatOneProcessTrains) {
  int compared = 0;
  for (const std::int32_t ranks : {2, 4}) {
    for (const std::uint16_t width : std::initializer_list<std::uint16_t>{1, 2}) {
      if (testing::kSanitized && (ranks == 2) != (width == 2)) continue;
      TrainingCase test = TrainingCase::on(GetParam(), 4);
      const std::uint16_t only = find_schedule(GetParam()).only_devices;
      if (only != 0) test.devices = only;
      test.width = width;
      test.batches = 3;
      if (!test.take_microbatches(4)) continue;
      if (test.devices * width < ranks) continue;
      SCOPED_TRACE(fmt::format("{} ranks, width {}", ranks, width));
      const Program program = lower(test.make());
      // Partners, who keep stashes for each other, on one rank.
      RankThreads threads{.ranks = ranks};
      if (GetParam() == "bpipe") {
        if (ranks > 2) continue;
        threads.devices = width == 1 ? "0,3/1,2" : "0-3/4-7";
      }
      expect_same_run(threads.train(test, program), train_in_one_process(test, program));
      ++compared;
    }
  }
  EXPECT_GE(compared, 1);
}

TEST(Ranks, TrainWhatOneProcessTrainsWhereNormsDecide) {
  for (const char* schedule : {"1f1b", "2bw", "chimera"}) {
    for (const std::uint16_t width : std::initializer_list<std::uint16_t>{1, 2}) {
      TrainingCase test = TrainingCase::on(schedule, 4);
      test.width = width;
      test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      SCOPED_TRACE(fmt::format("{} width {}", schedule, width));
      const Program program = lower(test.make());
      expect_same_run(RankThreads{.ranks = 4}.train(test, program),
                      train_in_one_process(test, program));
    }
  }
}

}  // namespace
}  // namespace tandem
