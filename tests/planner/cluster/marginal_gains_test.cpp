// What more of a cluster is worth: each gain is the best plan of a cluster that has so much more.

#include "planner/cluster/marginal_gains.h"

#include <gtest/gtest.h>

#include "tests/planner/cluster/question_of_gpt2.h"

namespace tandem {
namespace {

/// Over two nodes, in scarce memory.
ClusterQuestion scarce_question() {
  ClusterSpec spec = cluster_of_nodes("2xp3.16xlarge");
  for (DeviceSpec& device : spec.devices) device.memory_bytes = Bytes{1400} << 20;
  return testing::question_of_gpt2(spec);
}

TEST(MarginalGains, ScaleWhatTheySay) {
  const ClusterQuestion question = scarce_question();
  const Cluster& before = *question.base.cluster;
  for (const Supply supply : kSupplies) {
    SCOPED_TRACE(name(supply));
    const ClusterQuestion more = with_more(question, supply, 2.0);
    const Cluster& after = *more.base.cluster;
    const DeviceSpec &was = before[DeviceId{}], &is = after[DeviceId{}];
    const auto times = [supply](Supply of) { return supply == of ? 2 : 1; };
    EXPECT_EQ(is.flops(NumberFormat::fp16), times(Supply::compute) * was.flops(NumberFormat::fp16));
    EXPECT_EQ(is.memory_bytes_per_s, times(Supply::memory_rate) * was.memory_bytes_per_s);
    EXPECT_EQ(is.memory_bytes, times(Supply::memory) * was.memory_bytes);
    ASSERT_EQ(after.links().size(), before.links().size());
    for (const LinkId link : ids(before.links())) {
      const bool between = before.links()[link].between_nodes;
      EXPECT_EQ(after.links()[link].bytes_per_s,
                times(between ? Supply::links_between_nodes : Supply::links_in_nodes) *
                    before.links()[link].bytes_per_s);
    }
  }
}

TEST(MarginalGains, AreThoseOfTheBestPlansThere) {
  const ClusterQuestion question = scarce_question();
  const ClusterAnswer now = find_cluster_plans(question);
  ASSERT_FALSE(now.ranked.empty());
  const double best = now.ranked.front().value;
  const std::vector<MarginalGain> gains = marginal_gains(question);
  ASSERT_EQ(gains.size(), kSupplies.size() + 1);
  for (const MarginalGain& gain : gains) {
    SCOPED_TRACE(name(gain.supply));
    const ClusterQuestion more = with_more(question, gain.supply, gain.times);
    EXPECT_EQ(gain.best.value, find_cluster_plans(more).ranked.front().value);
    EXPECT_LE(gain.best.value, best);  // more of anything makes nothing slower
    EXPECT_TRUE(gain.proved);
    EXPECT_GE(gain.best.value, best / gain.times * (1 - 1e-12));
  }
  EXPECT_LT(gains.front().best.value, best);  // compute
  const MarginalGain& any_memory = gains.back();
  EXPECT_LT(any_memory.best.value, best);
  EXPECT_GT(any_memory.best.peak_bytes, Bytes{1400} << 20);
  EXPECT_FALSE(same_shape(any_memory.best, now.ranked.front()));
  EXPECT_TRUE(same_shape(now.ranked.front(), now.ranked.front()));
}

TEST(MarginalGains, AStepIsWorkAndWaiting) {
  const ClusterAnswer answer = find_cluster_plans(scarce_question());
  for (const ClusterCandidate& one : answer.ranked) {
    const StepParts parts = parts_of_step(one);
    EXPECT_GT(parts.computes_s, 0.0);
    EXPECT_GE(parts.waits_s, 0.0);
    EXPECT_NEAR(parts.computes_s + parts.waits_s, one.period_s, 1e-9);
  }
}

TEST(MarginalGains, AStopLeavesThoseSoFar) {
  int asked = 0;
  const auto gains = marginal_gains(scarce_question(), [&asked] { return ++asked > 1; });
  EXPECT_LT(gains.size(), kSupplies.size());
}

}  // namespace
}  // namespace tandem
