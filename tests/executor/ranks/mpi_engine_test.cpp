// Ranks that MPI's launcher has started, this process one of them: every bit is that of one
// process, and a message that is not what was sent is named by all.

#include <initializer_list>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/ranks/mpi_module.h"
#include "executor/ranks/rank_place.h"
#include "tests/support/pipelines.h"
#include "tests/support/rank_threads.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::RankThreads;
using testing::TrainingCase;
using namespace std::chrono_literals;

/// Who this process is. A run of its own meets at a port of its own: the ranks count alike.
RankPlace place_of_next_run() {
  static std::uint16_t runs = 0;
  RankPlace place = find_rank_place(environment_variable).value_or(RankPlace{});
  place.rendezvous_port = static_cast<std::uint16_t>(place.rendezvous_port + ++runs);
  return place;
}

TrainingReport<float> train_as_a_rank(const RankPlace& place, const TrainingCase& test,
                                      const Program& program, RankThreads ranks = {}) {
  ranks.ranks = place.ranks;
  const auto change = ranks.change_group;
  ranks.change_group = [&](std::int32_t rank, RankGroupSetup& group) {
    group.mpi = find_mpi().module;
    if (change) change(rank, group);
  };
  return ranks.train_one(place.rank, place.rendezvous_port, test, program, testing::data_of(test));
}

void expect_same(const RankPlace& place, const TrainingReport<float>& here,
                 const TrainingReport<float>& alone) {
  for (const NamedTensor<float>& tensor : here.weights) {
    const auto same = std::ranges::find(alone.weights, tensor.name, &NamedTensor<float>::name);
    ASSERT_NE(same, alone.weights.end()) << tensor.name;
    EXPECT_EQ(tensor.values, same->values) << tensor.name;
  }
  if (place.rank != 0) return;  // which may run further pipelines alone: those show no weights
  EXPECT_FALSE(here.weights.empty());
  EXPECT_EQ(here.losses, alone.losses);
  EXPECT_EQ(here.high_water, alone.high_water);
}

class MpiRanksOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Schedules, MpiRanksOf, ::testing::ValuesIn(testing::schedule_names()),
                         testing::test_name);

TEST_P(MpiRanksOf, TrainWhatOneProcessTrains) {
  ASSERT_NE(find_mpi().module, nullptr) << find_mpi().why_absent;
  for (const std::uint16_t width : std::initializer_list<std::uint16_t>{1, 2}) {
    TrainingCase test = TrainingCase::on(GetParam(), 4);
    const std::uint16_t only = find_schedule(GetParam()).only_devices;
    if (only != 0) test.devices = only;
    test.width = width;
    test.batches = 3;
    const RankPlace place = place_of_next_run();
    ASSERT_GT(place.ranks, 1) << "mpirun starts this program";
    if (!test.take_microbatches(4) || test.devices * width < place.ranks) continue;
    SCOPED_TRACE(fmt::format("rank {} of {}, width {}", place.rank, place.ranks, width));
    const Program program = lower(test.make());
    RankThreads ranks;
    // Partners, who keep stashes for each other, on one rank.
    if (GetParam() == "bpipe" && place.ranks > 2) continue;
    if (GetParam() == "bpipe") ranks.devices = width == 1 ? "0,3/1,2" : "0-3/4-7";
    const Data data = testing::data_of(test);
    expect_same(place, train_as_a_rank(place, test, program, ranks),
                train_on_cpu<float>(program, testing::setup_of<float>(test, program, data)));
  }
}

TEST(MpiRanks, TrainWhatOneProcessTrainsWhereNormsDecide) {
  TrainingCase test = TrainingCase::on("2bw", 4);
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  const RankPlace place = place_of_next_run();
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  expect_same(place, train_as_a_rank(place, test, program),
              train_on_cpu<float>(program, testing::setup_of<float>(test, program, data)));
}

/// Behind it MPI is not to be used again: a process of its own runs this.
TEST(ACorruptFrame, Fails) {
  TrainingCase test = TrainingCase::on("1f1b", 4);
  const RankPlace place = place_of_next_run();
  FaultInjector faults(parse_fault("corrupt:frame=3"));
  const RankThreads ranks{.change_group = [&](std::int32_t rank, RankGroupSetup& group) {
    group.doubt = 100ms;
    if (rank == 1) group.faults = &faults;
  }};
  std::string error;
  try {
    train_as_a_rank(place, test, lower(test.make()), ranks);
  } catch (const DeviceError& failure) {
    error = failure.what();
  }
  EXPECT_THAT(error, ::testing::HasSubstr("the checksum of frame"));
  EXPECT_THAT(error, ::testing::HasSubstr("with rank 1"));
}

}  // namespace
}  // namespace tandem
