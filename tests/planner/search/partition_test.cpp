// partition() against brute force: the same cut, not only the same cost.

#include "planner/search/partition.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

using Cut = std::optional<std::vector<LayerRange>>;

std::vector<std::int64_t> costs_of(const PartitionProblem& problem,
                                   const std::vector<LayerRange>& cut) {
  std::vector<std::int64_t> costs;
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    costs.push_back(problem.cost(cut[stage], stage));
  }
  std::sort(costs.begin(), costs.end(), std::greater<>());
  return costs;
}

bool fits(const PartitionProblem& problem, const std::vector<LayerRange>& cut) {
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    if (problem.fits && !problem.fits(cut[stage], stage)) return false;
  }
  return true;
}

/// Cuts come with shorter first stages first, so the first of the best is the one that is due.
Cut brute_force(const PartitionProblem& problem) {
  Cut best;
  if (problem.depth > problem.layers) return best;
  testing::each_cut(problem.layers, problem.depth, [&](const std::vector<LayerRange>& cut) {
    if (!fits(problem, cut)) return;
    if (!best || costs_of(problem, cut) < costs_of(problem, *best)) best = cut;
  });
  return best;
}

PartitionProblem by_time(const std::vector<std::int64_t>& times, std::int32_t depth) {
  return {.layers = static_cast<std::int32_t>(times.size()),
          .depth = depth,
          .cost = [times](LayerRange range, std::size_t) {
            return std::accumulate(times.begin() + range.first, times.begin() + range.last,
                                   std::int64_t{0});
          }};
}

TEST(Partition, CutsWhereTheSlowestStageIsFastest) {
  EXPECT_EQ(partition(by_time({5, 1, 1, 1, 4}, 3)), (Cut{{{0, 1}, {1, 4}, {4, 5}}}));
  EXPECT_EQ(partition(by_time({1, 1, 1, 1, 1, 1}, 3)), (Cut{{{0, 2}, {2, 4}, {4, 6}}}));
}

TEST(Partition, OneStageTakesAllAndEachStageTakesALayer) {
  EXPECT_EQ(partition(by_time({3, 1, 4}, 1)), (Cut{{{0, 3}}}));
  EXPECT_EQ(partition(by_time({3, 1, 4}, 3)), (Cut{{{0, 1}, {1, 2}, {2, 3}}}));
  EXPECT_EQ(partition(by_time({3, 1, 4}, 4)), std::nullopt);
}

TEST(Partition, TiesGoToTheFasterSecondSlowestThenTheShorterFirstStage) {
  // The slowest is 9 however the rest is cut: 4 + 4 is more even than 1 + 7 or 7 + 1.
  EXPECT_EQ(partition(by_time({9, 1, 3, 3, 1}, 3)), (Cut{{{0, 1}, {1, 3}, {3, 5}}}));
  // 1 + 2 and 2 + 1 are alike.
  EXPECT_EQ(partition(by_time({1, 1, 1}, 2)), (Cut{{{0, 1}, {1, 3}}}));
}

TEST(Partition, LayersThatTakeNoTimeMakeNoDifference) {
  EXPECT_EQ(partition(by_time({0, 0, 0, 0}, 2)), (Cut{{{0, 1}, {1, 4}}}));
}

TEST(Partition, AFullStageMovesTheCut) {
  PartitionProblem problem = by_time({1, 1, 1, 1, 1, 1}, 2);
  problem.fits = [](LayerRange range, std::size_t stage) {
    return range.size() <= (stage == 0 ? 1 : 5);
  };
  EXPECT_EQ(partition(problem), (Cut{{{0, 1}, {1, 6}}}));
  problem.fits = [](LayerRange range, std::size_t) { return range.size() <= 2; };
  EXPECT_EQ(partition(problem), std::nullopt);
}

TEST(Partition, TakesWhatAGreedyCutWouldMiss) {
  // Layer 2 is large: only the first stage has room for it, and layer 3 after it only the second.
  const std::vector<std::int64_t> bytes{1, 1, 8, 1};
  PartitionProblem problem = by_time({1, 1, 1, 9}, 2);
  problem.fits = [&](LayerRange range, std::size_t stage) {
    const auto sum = std::accumulate(bytes.begin() + range.first, bytes.begin() + range.last, 0L);
    return sum <= (stage == 0 ? 10 : 1);
  };
  EXPECT_EQ(partition(problem), (Cut{{{0, 3}, {3, 4}}}));
}

TEST(Partition, EqualsBruteForce) {
  std::mt19937 random(7);
  int infeasible = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto layers = static_cast<std::int32_t>(1 + random() % 9);
    const auto depth = static_cast<std::int32_t>(1 + random() % 5);
    const auto most = static_cast<std::uint32_t>(1) << (1 + random() % 6);  // few values: many ties
    std::vector<std::int64_t> times, bytes, room;
    for (std::int32_t i = 0; i < layers; ++i) {
      times.push_back(random() % most);
      bytes.push_back(random() % 8);
    }
    for (std::int32_t i = 0; i < depth; ++i) room.push_back(4 + random() % 24);
    PartitionProblem problem = by_time(times, depth);
    if (round % 2 == 1) {
      problem.fits = [&](LayerRange range, std::size_t stage) {
        return std::accumulate(bytes.begin() + range.first, bytes.begin() + range.last,
                               std::int64_t{0}) <= room[stage];
      };
    }
    if (round % 3 == 2) {  // stages that pay differently for the same layers
      const auto plain = problem.cost;
      problem.cost = [plain, room](LayerRange range, std::size_t stage) {
        return plain(range, stage) * room[stage];
      };
    }
    const Cut expected = brute_force(problem);
    infeasible += expected ? 0 : 1;
    ASSERT_EQ(partition(problem), expected) << "round " << round;
  }
  EXPECT_GT(infeasible, 300);
}

TEST(Partition, LargeTimesStayExact) {
  // One nanosecond decides, far beyond the 53 bits of a double.
  constexpr std::int64_t kLong = std::int64_t{1} << 60;
  EXPECT_EQ(partition(by_time({kLong, 1, 1, kLong + 1}, 2)), (Cut{{{0, 2}, {2, 4}}}));
  EXPECT_EQ(partition(by_time({kLong + 1, 1, 1, kLong}, 2)), (Cut{{{0, 1}, {1, 4}}}));
  EXPECT_EQ(partition(by_time({kLong, 1, kLong + 1}, 2)), (Cut{{{0, 2}, {2, 3}}}));
}

TEST(Partition, AThousandLayersTakeMoments) {
  std::vector<std::int64_t> times;
  for (int i = 0; i < 1000; ++i) times.push_back(1000 + i % 7);
  const std::vector<std::int64_t> sums = [&] {
    std::vector<std::int64_t> all{0};
    for (const std::int64_t time : times) all.push_back(all.back() + time);
    return all;
  }();
  int priced = 0;
  const PartitionProblem problem{
      .layers = 1000, .depth = 32, .cost = [&](LayerRange range, std::size_t) {
        ++priced;
        return sums[static_cast<std::size_t>(range.last)] -
               sums[static_cast<std::size_t>(range.first)];
      }};
  EXPECT_TRUE(partition(problem).has_value());
  EXPECT_LT(priced, 32 * 1000 * 1000 / 8);
}

}  // namespace
}  // namespace tandem
