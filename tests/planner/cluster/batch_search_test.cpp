// The batch that nobody gave: each is planned as if it were given, and the smallest that is as good
// as any is chosen.

#include "planner/cluster/batch_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/catalog.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Batches, Double) {
  EXPECT_THAT(doubled_batches(64, 512), ElementsAre(64, 128, 256, 512));
  EXPECT_THAT(doubled_batches(3, 13), ElementsAre(3, 6, 12));
  EXPECT_THAT(doubled_batches(5, 5), ElementsAre(5));
}

TEST(Batches, HaveHalfAMillionTo16MillionTokens) {
  EXPECT_THAT(usual_batches(1024), ElementsAre(512, 1024, 2048, 4096, 8192, 16384));
  EXPECT_THAT(usual_batches(8192), ElementsAre(64, 128, 256, 512, 1024, 2048));
  EXPECT_THAT(usual_batches(6000), ElementsAre(64, 128, 256, 512, 1024, 2048));
  EXPECT_THAT(usual_batches(1 << 30), ElementsAre(1));
}

/// Two blocks on eight devices at most, whose sums cost more than a small batch.
ClusterQuestion small_question(Objective objective) {
  ClusterQuestion question;
  question.base.plan.model = find_model("gpt2")->model;
  question.base.plan.model.blocks = 2;
  question.base.cluster = std::make_shared<const Cluster>(cluster_of_nodes("DGX-A100"));
  question.base.assumptions.reserve = {};
  question.objective = objective;
  question.schedules = {"1f1b", "gpipe"};
  return question;
}

TEST(BatchSearch, PlansEachBatchAsIfItWereGiven) {
  for (const Objective objective : {Objective::throughput, Objective::cost}) {
    ClusterQuestion question = small_question(objective);
    const std::vector<std::int64_t> batches = doubled_batches(1, 512);
    const BatchAnswer found = find_batch(question, batches);
    ASSERT_EQ(found.batches.size(), batches.size());
    EXPECT_FALSE(found.interrupted);
    double least = std::numeric_limits<double>::infinity();
    std::vector<double> of_a_sample;
    for (const BatchOutcome& one : found.batches) {
      question.global_batch = one.global_batch;
      const ClusterAnswer alone = find_cluster_plans(question);
      ASSERT_FALSE(one.answer.ranked.empty());
      EXPECT_EQ(one.answer.ranked.front().value, alone.ranked.front().value);
      EXPECT_EQ(one.answer.bound, alone.bound);
      of_a_sample.push_back(alone.ranked.front().value / static_cast<double>(one.global_batch));
      least = std::min(least, of_a_sample.back());
    }
    ASSERT_TRUE(found.has_plan());
    EXPECT_GT(found.chosen, 0u);
    EXPECT_LT(found.chosen, batches.size() - 1);
    EXPECT_LE(of_a_sample[found.chosen], 1.02 * least);
    for (std::size_t i = 0; i < found.chosen; ++i) EXPECT_GT(of_a_sample[i], 1.02 * least) << i;
  }
}

TEST(BatchSearch, SaysWhereNothingFits) {
  ClusterQuestion question = small_question(Objective::throughput);
  question.width = 8;
  const BatchAnswer found = find_batch(question, {4, 8});  // 4 samples are no 8 pipelines'
  EXPECT_TRUE(found.batches[0].answer.ranked.empty());
  EXPECT_EQ(found.chosen, 1u);
  EXPECT_FALSE(find_batch(question, {2, 4}).has_plan());
}

TEST(BatchSearch, AStopLeavesTheBatchesSoFar) {
  int asked = 0;
  const BatchAnswer found = find_batch(small_question(Objective::throughput), {8, 16, 32},
                                       [&asked] { return ++asked > 5; });
  EXPECT_TRUE(found.interrupted);
  EXPECT_LT(found.batches.size(), 3u);
}

}  // namespace
}  // namespace tandem
