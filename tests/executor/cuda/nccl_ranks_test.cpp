// NCCL over several processes, played by threads with a control connection each: what is trained
// is what one process trains on the CPU; who fails is named by all, and nobody waits for ever.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/executor/cuda/nccl_threads.h"
#include "tests/support/pipelines.h"
#include "tests/support/rank_threads.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem::cuda {
namespace {

using namespace std::chrono_literals;
using tandem::testing::RankEnd;
using tandem::testing::RankThreads;
using tandem::testing::TrainingCase;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::NcclProcess;
using testing::NcclWorld;
using ::testing::SizeIs;

/// Ranks whose devices send one another by NCCL.
struct NcclRanks {
  std::int32_t ranks = 2;
  std::function<void(std::int32_t rank, NcclProcess&)> change = {};
  std::function<void(std::int32_t rank, TrainingSetup<float>&)> change_training = {};
  NcclWorld world = {};
  std::vector<std::unique_ptr<NcclProcess>> processes = {};

  std::vector<RankEnd> train(const TrainingCase& test, const Program& program) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      processes.push_back(
          std::make_unique<NcclProcess>(world, 7 + static_cast<std::uint64_t>(rank)));
      processes.back()->setup.longest_wait = 20s;
      processes.back()->setup.doubt = tandem::testing::kSanitized ? 3500ms : 1000ms;
      if (change) change(rank, *processes.back());
    }
    RankThreads threads{.ranks = ranks, .change = change_training};
    threads.train_by_messages = [this](std::int32_t rank, const Program& its,
                                       const TrainingSetup<float>& setup) {
      return processes[static_cast<std::size_t>(rank)]->train(its, setup);
    };
    return threads.train(test, program);
  }
};

TrainingReport<float> train_alone(const TrainingCase& test, const Program& program) {
  const Data data = tandem::testing::data_of(test);
  return train_on_cpu<float>(program, tandem::testing::setup_of<float>(test, program, data));
}

void expect_same(const std::vector<RankEnd>& ends, const TrainingReport<float>& alone) {
  std::map<std::string, std::vector<float>> weights;
  for (const RankEnd& end : ends) {
    ASSERT_EQ(end.error, "");
    for (const NamedTensor<float>& tensor : end.report.weights)
      weights[tensor.name] = tensor.values;
  }
  EXPECT_EQ(ends.front().report.losses, alone.losses);
  EXPECT_EQ(weights.size(), alone.weights.size());
  for (const NamedTensor<float>& tensor : alone.weights)
    EXPECT_EQ(weights[tensor.name], tensor.values) << tensor.name;
  EXPECT_EQ(ends.front().report.high_water, alone.high_water);
}

/// All made were ended, once each, and nothing was done that NCCL forbids.
void expect_ended(const NcclWorld& world) {
  EXPECT_EQ(world.left(), 0u);
  EXPECT_THAT(world.misuses(), IsEmpty());
}

/// The first of two processes adds what the second brings, as one process does; of more, NCCL's
/// order is its own.
bool adds_in_one_order(const Program& program, std::uint16_t width) {
  return std::ranges::none_of(
      CommunicatorPlans(program, width).all(),
      [](const CommunicatorPlan& plan) { return plan.sums && plan.devices.size() > 2; });
}

class NcclRanksOf : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> schedules_by_messages() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) {
    if (row.name != "bpipe") names.emplace_back(row.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Schedules, NcclRanksOf, ::testing::ValuesIn(schedules_by_messages()),
                         tandem::testing::test_name);

TEST_P(NcclRanksOf, TrainWhatOneProcessTrains) {
  int compared = 0;
  for (const std::int32_t ranks : {1, 2, 4}) {
    for (const std::uint16_t devices : std::initializer_list<std::uint16_t>{2, 4}) {
      const std::uint16_t width = ranks == 1 || devices == 4 ? 1 : 2;
      if (tandem::testing::kSanitized && (ranks == 1 || devices == 2)) continue;
      TrainingCase test = TrainingCase::on(GetParam(), devices);
      const std::uint16_t only = find_schedule(GetParam()).only_devices;
      if (only != 0) test.devices = only;
      test.width = width;
      test.batches = 3;
      if (!test.take_microbatches(4) || test.devices * width < ranks) continue;
      const Program program = lower(test.make());
      if (!adds_in_one_order(program, width)) continue;
      SCOPED_TRACE(fmt::format("{} ranks, {} devices, width {}", ranks, test.devices, width));
      NcclRanks run{.ranks = ranks};
      expect_same(run.train(test, program), train_alone(test, program));
      expect_ended(run.world);
      EXPECT_EQ(run.world.ids(), 1);
      ++compared;
    }
  }
  EXPECT_GE(compared, tandem::testing::kSanitized ? 0 : 1);
}

TEST(NcclRanks, TrainWhatOneProcessTrainsWhereNormsDecide) {
  for (const char* schedule : {"1f1b", "2bw", "zb-h2", "chimera"}) {
    TrainingCase test = TrainingCase::on(schedule, 4);
    test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
    SCOPED_TRACE(schedule);
    const Program program = lower(test.make());
    for (const std::int32_t ranks : {2, 4}) {
      NcclRanks run{.ranks = ranks};
      expect_same(run.train(test, program), train_alone(test, program));
      expect_ended(run.world);
    }
  }
}

/// Sums of four devices: in an order of their own, the same every time.
TEST(NcclRanks, RepeatThemselves) {
  TrainingCase test{.schedule = "1f1b", .devices = 2};
  test.width = 4;
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  const Program program = lower(test.make());
  std::vector<std::vector<double>> losses;
  for (const std::int32_t ranks : {1, 2, 4, 8, 8}) {
    NcclRanks run{.ranks = ranks};
    const std::vector<RankEnd> ends = run.train(test, program);
    for (const RankEnd& end : ends) EXPECT_EQ(end.error, "");
    losses.push_back(ends.front().report.losses);
  }
  EXPECT_THAT(losses, Each(losses.front()));
}

/// Each rank splits all, in the order of the plans.
TEST(NcclRanks, MakeCommunicatorsInTheOrderOfThePlans) {
  const TrainingCase test{.schedule = "1f1b", .devices = 4};
  const Program program = lower(test.make());
  NcclRanks run{.ranks = 4};
  run.train(test, program);
  const CommunicatorPlans plans(program, 1);
  for (std::size_t device = 0; device < 4; ++device) {
    std::vector<std::string> names;
    for (const std::size_t plan : plans.of_device(id_at<DeviceId>(device)))
      names.push_back(plans.all()[plan].name);
    EXPECT_EQ(run.processes[device]->nccl.parts, names) << device;
  }
}

TEST(NcclRanks, WaitForThoseThatComeLate) {
  const TrainingCase test{.schedule = "1f1b", .devices = 3, .batches = 1};
  const Program program = lower(test.make());
  NcclRanks run{.ranks = 3, .change = [](std::int32_t, NcclProcess& process) {
                  process.setup.longest_wait = 400ms;  // for once all are there
                }};
  run.change_training = [](std::int32_t rank, TrainingSetup<float>&) {
    if (rank == 1) std::this_thread::sleep_for(600ms);
  };
  expect_same(run.train(test, program), train_alone(test, program));
  expect_ended(run.world);
}

/// What all ranks come to where one fails: the same words, which name it, or those that it finds
/// itself where several fail at once.
std::vector<std::string> errors_of(NcclRanks& run, const TrainingCase& test,
                                   bool fail_at_once = false) {
  std::vector<std::string> errors;
  const auto start = std::chrono::steady_clock::now();
  for (const RankEnd& end : run.train(test, lower(test.make()))) errors.push_back(end.error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
  if (!fail_at_once) {
    EXPECT_THAT(errors, Each(errors.front()));
  }
  expect_ended(run.world);
  EXPECT_GT(run.world.made(), 0u);
  return errors;
}

TrainingCase over_three_devices() {
  TrainingCase test{.schedule = "1f1b", .devices = 3, .batches = 100};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  return test;
}

TEST(NcclRanks, NameAllAlikeWhichCallHasFailedWhere) {
  struct Row {
    const char* call;
    int number;
    std::int32_t rank;
    const char* words;
  };
  for (const Row& row :
       {Row{"init", 0, 1, "all devices, rank 1 of 3: ncclCommInitRankConfig"},
        Row{"split", 0, 1, "all devices, rank 1 of 3: ncclCommSplit of send activation 0→1"},
        Row{"split", 3, 2, "all devices, rank 2 of 3: ncclCommSplit of send gradient 2→1"},
        Row{"send", 0, 0, "send activation 0→1, rank 0 of 2: connecting"},
        Row{"receive", 0, 1, "send activation 0→1, rank 1 of 2: connecting"},
        Row{"sum", 0, 2, "sum 0 2, rank 1 of 2: connecting"},
        Row{"send", 40, 1, "ncclSend: internal error"},
        Row{"receive", 9, 1, "ncclRecv: internal error"},
        Row{"sum", 3, 0, "ncclAllReduce: internal error"}}) {
    SCOPED_TRACE(fmt::format("{} {}", row.call, row.number));
    NcclRanks run{.ranks = 3, .change = [&](std::int32_t rank, NcclProcess& process) {
                    process.setup.doubt = tandem::testing::kSanitized ? 2000ms : 200ms;
                    if (rank == row.rank) process.nccl.fails_at[row.call] = row.number;
                  }};
    EXPECT_THAT(
        errors_of(run, over_three_devices()),
        Each(AllOf(HasSubstr(fmt::format("rank {} (host", row.rank)), HasSubstr(row.words))));
  }
}

TEST(NcclRanks, NameTheOpThatHasFailed) {
  NcclRanks run{.ranks = 3};
  run.change_training = [](std::int32_t rank, TrainingSetup<float>& setup) {
    if (rank != 1) return;
    setup.before_work = [](DeviceId, Instance at) {
      if (at.microbatch == 9) throw DeviceError("gone");
    };
  };
  EXPECT_THAT(errors_of(run, over_three_devices()),
              Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("device 1, "), HasSubstr("gone"))));
}

/// The others hear of the broken connections of NCCL before the reason is told.
TEST(NcclRanks, TakeWhatFailsAtTheirSideForTheEndOfAnother) {
  NcclRanks run{.ranks = 3};
  run.world.tells_of_aborts = true;
  run.change_training = [](std::int32_t rank, TrainingSetup<float>& setup) {
    if (rank != 2) return;
    setup.before_work = [](DeviceId, Instance at) {
      if (at.microbatch == 9) throw DeviceError("gone");
    };
  };
  EXPECT_THAT(errors_of(run, over_three_devices()),
              Each(AllOf(HasSubstr("rank 2 (host"), HasSubstr("gone"))));
}

/// Which no NCCL tells of: the watchdog does.
TEST(NcclRanks, AreEndedByTheWatchdogWhereOneStandsStill) {
  NcclRanks run{.ranks = 3};
  run.change_training = [](std::int32_t rank, TrainingSetup<float>& setup) {
    setup.watchdog = 1s;
    if (rank != 1) return;
    setup.before_work = [](DeviceId, Instance at) {
      if (at.microbatch == 9) std::this_thread::sleep_for(3s);
    };
  };
  EXPECT_THAT(errors_of(run, over_three_devices()),
              Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("does not end"))));
}

/// Control: a rank that is at another plan than the others, which the order excludes.
TEST(NcclRanks, WaitForEverWhereOneSplitsLess) {
  NcclRanks run{.ranks = 3, .change = [](std::int32_t rank, NcclProcess& process) {
                  process.setup.longest_wait = 1s;
                  process.setup.doubt = 200ms;
                  if (rank == 1) process.nccl.is_lost_at["split"] = 1;
                }};
  EXPECT_THAT(errors_of(run, over_three_devices(), true),
              Each(AllOf(HasSubstr("ncclCommSplit of"), HasSubstr("has not ended in 1 s"))));
}

TEST(NcclRanks, SeeThatOneSplitsInAnotherOrder) {
  NcclRanks run{.ranks = 3, .change = [](std::int32_t rank, NcclProcess& process) {
                  process.setup.doubt = 200ms;
                  if (rank == 1) process.nccl.mistakes_parts = true;
                }};
  EXPECT_THAT(errors_of(run, over_three_devices(), true),
              Each(HasSubstr("devices make communicators in different orders")));
}

}  // namespace
}  // namespace tandem::cuda
