// Copies of a run's state on several hosts, each a folder here: a host that has lost its memory is
// brought what it needs, and no more is lost than what neighbours had not been passed on.

#include "executor/copies/copy_exchange.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/checkpoint/named_parts.h"
#include "executor/copies/state_copies.h"
#include "tests/support/pipelines.h"
#include "tests/support/rank_threads.h"
#include "tests/support/run_command.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TrainingCase;

// ---- Who has what ----

StageCopy copy_of(std::size_t stage, std::int64_t batches) {
  return {stage, batches, fmt::format("{} {}", stage, batches)};
}

TEST(CopyTable, HasTheNextHostsRankForANeighbour) {
  const CopyTable table({{"a"}, {"a"}, {"b"}, {"c"}, {"c"}});
  EXPECT_EQ(table.hosts(), 3U);
  EXPECT_EQ(table.neighbour(0), 2);
  EXPECT_EQ(table.neighbour(1), 2);
  EXPECT_EQ(table.neighbour(2), 3);
  EXPECT_EQ(table.neighbour(3), 0);
  EXPECT_EQ(table.neighbour(4), 1);
  EXPECT_THAT(table.ranks_beside(4), ElementsAre(3, 4));
  EXPECT_EQ(CopyTable({{"a"}, {"a"}}).neighbour(0), std::nullopt);
}

TEST(CopyTable, BringsWhatAHostLacksOnce) {
  const StagesOfRanks stages{.written_by = {{0, 0}, {1, 1}, {2, 2}},
                             .read_by = {{0}, {1, 2}, {2}, {0}}};
  const CopyTable table({{"a", {copy_of(0, 7), copy_of(2, 7), copy_of(0, 8)}},
                         {"b", {copy_of(1, 7), copy_of(0, 7)}},
                         {"c", {copy_of(1, 8)}},
                         {"c", {copy_of(1, 8)}}});
  EXPECT_EQ(table.newest(stages), 7);
  std::vector<std::string> said;
  for (const CopyTable::Transfer& each : table.transfers(7, stages))
    said.push_back(fmt::format("{}: {} to {}", each.copy.path, each.source, each.target));
  EXPECT_THAT(said, ElementsAre("2 7: 0 to 1", "2 7: 0 to 2", "0 7: 0 to 3"));
  EXPECT_EQ(CopyTable({{"a", {copy_of(0, 7), copy_of(2, 7)}}, {"b"}, {"c"}, {"c"}}).newest(stages),
            std::nullopt)
      << "nobody has stage 1";
}

TEST(StagesOfRanksOfAProgram, AreWrittenOnceAndReadByAllPipelines) {
  TrainingCase test{.schedule = "1f1b", .devices = 2};
  test.width = 2;
  const Program program = lower(test.make());
  const auto of = [&](bool tied, bool all) {
    ModelSpec model = test.model;
    model.tied = tied;
    return stages_of_ranks(program, count_slots(program), model, testing::even_stages(model, 2),
                           even_device_ranks(4, 4), 4, all);
  };
  using Stages = std::set<std::size_t>;
  const std::map<std::size_t, std::int32_t> first_pipeline{{0, 0}, {1, 1}};
  EXPECT_EQ(of(false, false).written_by, first_pipeline);
  EXPECT_THAT(of(false, false).read_by, ElementsAre(Stages{0}, Stages{1}, Stages{0}, Stages{1}));
  EXPECT_THAT(of(true, false).read_by,
              ElementsAre(Stages{0}, Stages{0, 1}, Stages{0}, Stages{0, 1}))
      << "the head's table";
  EXPECT_EQ(of(false, true).read_by.front(), (Stages{0, 1}));
}

// ---- Between ranks ----

class Exchange : public ::testing::Test {
 protected:
  static constexpr std::int32_t kRanks = 3;

  std::string folder(std::int32_t rank) const {
    return (folder_.path() / fmt::format("host-{}", rank)).string();
  }
  void SetUp() override {
    for (std::int32_t rank = 0; rank < kRanks; ++rank) fs::create_directory(folder(rank));
  }
  void lose_memory_of(std::int32_t rank) const {
    fs::remove_all(folder(rank));
    fs::create_directory(folder(rank));
  }

  /// A stage a rank, which reads the one before, too. Returns what each failed by.
  std::vector<std::string> run(
      const std::function<void(std::int32_t rank, CopyExchange&)>& act,
      const std::function<std::int64_t(std::int32_t rank)>& checkpoint = [](auto) { return 0; }) {
    StagesOfRanks stages{.written_by = {}, .read_by = {}};
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      stages.written_by[static_cast<std::size_t>(rank)] = rank;
      const auto stage = static_cast<std::size_t>(rank);
      stages.read_by.push_back({stage, (stage + kRanks - 1) % kRanks});  // of a pipeline beside it
    }
    const std::uint16_t port = testing::free_port();
    std::vector<std::string> errors(kRanks);
    std::vector<std::jthread> threads;
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        RankGroup group({.rank = rank,
                         .ranks = kRanks,
                         .rendezvous_port = port,
                         .secret = "a secret of tests",
                         .patience = std::chrono::seconds(20)});
        try {
          CopyExchange exchange(group, folder(rank), stages, 0, checkpoint(rank));
          act(rank, exchange);
          exchange.finish(false);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = group.fail(error.what());
        }
      });
    }
    threads.clear();
    return errors;
  }

  /// Copies of the rank's stage after these batches, each passed on.
  void train(std::int32_t rank, CopyExchange& exchange, std::int64_t first,
             std::int64_t last) const {
    CheckpointInfo info{.written_by = "the test",
                        .model = test_.model,
                        .schedule = test_.schedule,
                        .optimizer = test_.optimizer.optimizer(),
                        .samples_a_batch = 4};
    info.batches = first - 1;
    StateCopies copies(folder(rank), info, layers_, 100, exchange.keep(),
                       [&](const StageCopy& copy) { exchange.pass_on(copy); });
    const LayerRange layers = layers_[static_cast<std::size_t>(rank)];
    for (std::int64_t batches = first; batches <= last; ++batches) {
      std::vector<Tensor> tensors;
      for (const LayerTensor& each : tensors_of(test_.model)) {
        if (each.layer < layers.first || each.layer >= layers.last) continue;
        tensors.push_back(each.tensor);
        const std::vector<float> values(static_cast<std::size_t>(each.tensor.size()),
                                        static_cast<float>(batches));
        copies.keep({batches, kNewestWeights, each.tensor, values});
      }
      copies.end_stage(batches, tensors, batches);
    }
  }

  /// "stage batches" of all copies in a folder.
  std::set<std::string> copies(std::int32_t rank) const {
    std::set<std::string> all;
    for (const StageCopy& copy : copies_in(folder(rank))) {
      EXPECT_TRUE(CopiedState::is_readable(copy.path));
      all.insert(fmt::format("{} {}", copy.stage, copy.batches));
    }
    return all;
  }
  /// What each rank has after a start: nothing where it has none.
  std::vector<std::optional<std::int64_t>> newest(std::int64_t checkpoint = 0) {
    std::vector<std::optional<std::int64_t>> all(kRanks);
    run([&](std::int32_t rank,
            CopyExchange& exchange) { all[static_cast<std::size_t>(rank)] = exchange.newest(); },
        [&](std::int32_t rank) { return rank == 0 ? checkpoint : 1'000; });
    return all;
  }

  const TrainingCase test_ = [] {
    TrainingCase test{.schedule = "1f1b", .devices = kRanks};
    test.model.blocks = kRanks;
    return test;
  }();
  const std::vector<LayerRange> layers_ = testing::even_stages(test_.model, kRanks);
  testing::TemporaryFolder folder_;
};

TEST_F(Exchange, PutsEachStageOnTheNextHostToo) {
  const auto errors = run([this](std::int32_t rank, CopyExchange& exchange) {
    EXPECT_EQ(exchange.newest(), std::nullopt);
    EXPECT_EQ(exchange.stages_here().size(), 2U) << "its own and the neighbour's";
    train(rank, exchange, 1, 6);
  });
  EXPECT_THAT(errors, ::testing::Each(std::string()));
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    const std::set<std::string> here = copies(rank);
    const std::int32_t ward = (rank + kRanks - 1) % kRanks;
    EXPECT_TRUE(here.contains(fmt::format("{} 6", rank)));
    EXPECT_TRUE(here.contains(fmt::format("{} 5", ward))) << "at most a step behind";
    EXPECT_LE(here.size(), 8U) << "no more than are kept";
  }
}

TEST_F(Exchange, BringsAHostThatHasLostItsMemoryWhatItNeeds) {
  run([this](std::int32_t rank, CopyExchange& exchange) { train(rank, exchange, 1, 4); });
  lose_memory_of(1);
  const auto found = newest();
  ASSERT_TRUE(found.front());
  EXPECT_GE(*found.front(), 3);
  EXPECT_THAT(found, ::testing::Each(found.front()));
  EXPECT_TRUE(copies(1).contains(fmt::format("1 {}", *found.front())));
  for (std::int32_t rank = 0; rank < kRanks; ++rank)
    for (const StageCopy& copy : copies_in(folder(rank))) EXPECT_LE(copy.batches, *found.front());
  // It trains on, and another is lost.
  run([&](std::int32_t rank, CopyExchange& exchange) {
    train(rank, exchange, *exchange.newest() + 1, 9);
  });
  lose_memory_of(2);
  EXPECT_GE(newest().front(), 8);
}

/// What was brought is that of a stage whose copies go on to be passed to the same rank.
TEST_F(Exchange, LeavesWhatARunGoesOnFromAsItIs) {
  run([this](std::int32_t rank, CopyExchange& exchange) { train(rank, exchange, 1, 4); });
  lose_memory_of(1);
  run([&](std::int32_t rank, CopyExchange& exchange) {
    const std::int64_t begin = *exchange.newest();
    const Tensor first = tensors_of(test_.model).front().tensor;  // of stage 0
    std::unique_ptr<CopiedState> state;
    if (rank == 1) state = CopiedState::after(begin, folder(rank), {{first, {kNewestWeights}}});
    train(rank, exchange, begin + 1, begin + 20);
    if (rank != 1) return;
    ASSERT_TRUE(state);
    std::vector<float> values(static_cast<std::size_t>(first.size()));
    ASSERT_TRUE(state->read(kNewestWeights, first, values));
    EXPECT_THAT(values, ::testing::Each(static_cast<float>(begin)));
  });
}

TEST_F(Exchange, HasNothingWhereAStageAndItsNeighboursCopyAreLost) {
  run([this](std::int32_t rank, CopyExchange& exchange) { train(rank, exchange, 1, 4); });
  lose_memory_of(1);
  lose_memory_of(2);
  EXPECT_THAT(newest(), ::testing::Each(std::nullopt));
  EXPECT_TRUE(copies(0).empty()) << "nobody goes on from these";
}

/// The first rank's: it is the one that writes them.
TEST_F(Exchange, GoesBehindANewerCheckpoint) {
  run([this](std::int32_t rank, CopyExchange& exchange) { train(rank, exchange, 1, 4); });
  EXPECT_THAT(newest(4), ::testing::Each(std::optional<std::int64_t>(4)));
  EXPECT_THAT(newest(5), ::testing::Each(std::nullopt));
}

TEST_F(Exchange, EndsTheRunWhereANeighbourCannotWrite) {
  const auto errors = run([this](std::int32_t rank, CopyExchange& exchange) {
    if (rank == 1) fs::remove_all(folder(1));
    if (rank == 0) train(rank, exchange, 1, 50);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("copies from rank 0: "), HasSubstr("host-1")));
}

}  // namespace
}  // namespace tandem
