// Plans within less memory and on fewer devices are the best ones there.

#include "planner/cluster/trade_offs.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/planner/cluster/question_of_gpt2.h"

namespace tandem {
namespace {

/// On one node, with a reserve.
ClusterQuestion reserving_question() {
  ClusterQuestion question = testing::question_of_gpt2(cluster_of_nodes("DGX-A100"));
  question.base.assumptions.reserve = {.share = 0.06, .bytes = 0};
  return question;
}

TEST(TradeOffs, LessMemoryIsSlowerAndSmaller) {
  const ClusterQuestion question = reserving_question();
  const ClusterCandidate best = find_cluster_plans(question).ranked.front();
  const auto plans = plans_by_memory(question, best);
  ASSERT_GT(plans.size(), 3u);
  EXPECT_EQ(plans.front().value, best.value);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const Bytes most = plans[i - 1].peak_bytes / 10 * 9;
    EXPECT_LE(plans[i].peak_bytes, most);
    EXPECT_GE(plans[i].value, plans[i - 1].value);
    // With a capacity of just so much, as --memory gives it.
    ClusterQuestion given = question;
    ClusterSpec spec = question.base.cluster->spec();
    for (DeviceSpec& device : spec.devices) device.memory_bytes = most;
    given.base.cluster = std::make_shared<const Cluster>(spec);
    given.base.assumptions.reserve = {};
    EXPECT_EQ(find_cluster_plans(given).ranked.front().value, plans[i].value);
  }
  const Bytes below = plans.back().peak_bytes / 10 * 9;
  EXPECT_TRUE(find_cluster_plans(with_memory_of(question, below)).ranked.empty());
}

TEST(TradeOffs, MemoryThatDevicesLackIsNotGiven) {
  const ClusterQuestion question = reserving_question();
  const Bytes own = (*question.base.cluster)[DeviceId{}].memory_bytes;
  const ClusterQuestion more = with_memory_of(question, 2 * own);
  EXPECT_EQ((*more.base.cluster)[DeviceId{}].memory_bytes,
            question.base.assumptions.reserve.usable(own));
}

TEST(TradeOffs, FewerDevicesAreSlower) {
  const ClusterQuestion question = reserving_question();
  const ClusterCandidate best = find_cluster_plans(question).ranked.front();
  const auto plans = plans_by_devices(question, best);
  ASSERT_EQ(plans.size(), 4u);  // 8, 4, 2, 1
  std::size_t devices = 8;
  for (const ClusterCandidate& one : plans) {
    EXPECT_LE(one.devices, devices);
    EXPECT_GE(one.value, best.value);
    devices /= 2;
  }
}

TEST(TradeOffs, AStopLeavesThoseSoFar) {
  const ClusterQuestion question = reserving_question();
  const ClusterCandidate best = find_cluster_plans(question).ranked.front();
  EXPECT_EQ(plans_by_memory(question, best, [] { return true; }).size(), 1u);
  EXPECT_EQ(plans_by_devices(question, best, [] { return true; }).size(), 1u);
}

}  // namespace
}  // namespace tandem
