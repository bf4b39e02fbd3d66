// Configurations beside the best plan: those that papers published, by our prices.

#include "planner/cluster/set_beside.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "core/model/node_order.h"
#include "planner/cluster/plan_of_cluster.h"
#include "tests/planner/cluster/small_question.h"
#include "tests/support/sanitizers.h"

namespace tandem {
namespace {

/// What a paper ran.
struct Published {
  const char* model;
  const char* cluster;
  std::int64_t batch;
  const char* schedule;
  std::int32_t tensor;
  std::uint16_t depth;
  std::int32_t microbatch_size;
  StageCut cut = StageCut::even;
};

ClusterQuestion question_of(const Published& of) {
  ClusterQuestion question;
  question.base.plan.model = find_model(of.model)->model;
  question.base.cluster = std::make_shared<const Cluster>(cluster_of_nodes(of.cluster));
  question.base.assumptions.reserve = kReserveOnCluster;
  question.base.assumptions.attention = AttentionKernel::plain;
  question.global_batch = of.batch;
  question.gap = 0.05;
  question.vanilla_only = std::string(of.schedule) != "2bw";
  return question;
}

ClusterCandidate made(const ClusterQuestion& question, const Published& of) {
  ClusterRequest request = question.base;
  request.plan.schedule = of.schedule;
  request.plan.microbatch_size = of.microbatch_size;
  request.plan.request.recompute = Recompute::full;
  request.assumptions.tensor = of.tensor;
  request.depth = of.depth;
  request.global_batch = of.batch;
  request.cut = of.cut;
  return simulated_on_cluster(request);
}

// 2BW's of one server (arXiv 2006.09503) and Megatron's smallest (2104.04473, table 1).
constexpr Published kPublished[]{
    {"gpt-2.2b", "p3.16xlarge", 64, "2bw", 1, 8, 8},
    {"gpt-2.2b", "p3.16xlarge", 64, "1f1b", 1, 8, 8},
    {"gpt-2.2b", "p3.16xlarge", 64, "gpipe", 1, 8, 8},
    {"gpt-2.2b", "p3.16xlarge", 256, "1f1b", 1, 8, 8},
    {"megatron-1.7b", "4xDGX-A100", 512, "1f1b", 1, 1, 16, StageCut::balanced},
    {"megatron-3.6b", "8xDGX-A100", 512, "1f1b", 2, 1, 16, StageCut::balanced}};

TEST(SetBeside, NoPublishedConfigurationIsFaster) {
  std::size_t slower = 0;
  for (const Published& of : kPublished) {
    if (testing::kSanitized && slower > 0) continue;  // minutes of such a build
    const ClusterQuestion question = question_of(of);
    const ClusterCandidate theirs = made(question, of);
    const ClusterAnswer answer = find_cluster_plans(question);
    ASSERT_FALSE(answer.ranked.empty());
    EXPECT_LE(answer.ranked.front().period_s, theirs.period_s) << of.model << " " << of.schedule;
    slower += known_faster(answer, theirs) > 0 ? 1 : 0;
  }
  EXPECT_EQ(slower, testing::kSanitized ? 1 : std::size(kPublished)) << "each is beaten by some";
}

// The control: a search of one schedule without pipelining is slower than theirs.
TEST(SetBeside, APoorSearchIsSlower) {
  const Published& of = kPublished[0];
  ClusterQuestion poor = question_of(of);
  poor.schedules = {"model-parallel"};
  poor.depth = 8;
  const ClusterAnswer answer = find_cluster_plans(poor);
  ASSERT_FALSE(answer.ranked.empty());
  const ClusterCandidate theirs = made(poor, of);
  EXPECT_GT(answer.ranked.front().period_s, theirs.period_s);
  EXPECT_EQ(known_faster(answer, theirs), 0u);
}

// A plan of a search, through the form of a file, is that plan again.
TEST(SetBeside, APlanIsPricedAsTheSearchPricedIt) {
  const ClusterQuestion question = question_of(kPublished[1]);
  const ClusterAnswer answer = find_cluster_plans(question);
  for (const ClusterCandidate& one : answer.ranked) {
    const ClusterCandidate again =
        simulated_on_cluster(request_like(question, plan_for_file(one, 0.0)));
    EXPECT_EQ(again.period_s, one.period_s);
    EXPECT_EQ(again.peak_bytes, one.peak_bytes);
    EXPECT_EQ(again.least_room, one.least_room);
  }
  Plan other = plan_for_file(answer.ranked.front(), 0.0);
  other.request.microbatches *= 2;
  EXPECT_THROW(request_like(question, other), InputError);
  other = plan_for_file(answer.ranked.front(), 0.0);
  other.model.blocks += 1;
  EXPECT_THROW(request_like(question, other), InputError);
}

// The best counts other nodes first than the cluster does: so does its plan where it is set beside
// others, unless the question gives an order.
TEST(SetBeside, APlanKeepsTheOrderOfItsNodes) {
  ClusterSpec spec = testing::uneven_cluster();
  ClusterQuestion question = testing::ask(testing::small_model(5, 2048), spec, 8, Bytes{8} << 30);
  question.schedules = {"1f1b"};
  question.most_devices = 8;
  const std::vector<std::string> as_it_is = node_order(spec);
  question.base.cluster =
      std::make_shared<const Cluster>(in_node_order(spec, {as_it_is[1], as_it_is[0]}));
  const ClusterCandidate best = find_cluster_plans(question).ranked.front();
  ASSERT_EQ(node_order(best.request.cluster->spec()), as_it_is);
  const Plan plan = plan_for_file(best, 0.0);
  EXPECT_EQ(simulated_on_cluster(request_like(question, plan)).period_s, best.period_s);
  question.given_node_order = true;
  EXPECT_GT(simulated_on_cluster(request_like(question, plan)).period_s, best.period_s);
}

// What is free alone: the rest stays, and of the whole space none is better than its best.
TEST(SetBeside, OneChangeLeavesTheRest) {
  ClusterQuestion question = question_of(kPublished[1]);
  question.gap = 0.0;
  const ClusterCandidate theirs = made(question, kPublished[1]);
  const double best_s = find_cluster_plans(question).ranked.front().period_s;
  for (const FreedPlan& of : best_by_one_change(question, theirs)) {
    ASSERT_TRUE(of.best.has_value()) << name(of.freedom);
    const ClusterCandidate& free = *of.best;
    EXPECT_GE(free.period_s, best_s);
    EXPECT_EQ(free.weights, WeightSemantics::vanilla);
    if (of.freedom != Freedom::schedule) {
      EXPECT_LE(free.period_s, theirs.period_s) << name(of.freedom);
      EXPECT_EQ(free.plan.schedule, "1f1b");
    }
    if (of.freedom != Freedom::layout) {
      EXPECT_EQ(free.plan.request.devices, 8);
    }
    if (of.freedom != Freedom::microbatch_size) {
      EXPECT_EQ(free.plan.microbatch_size, 8);
    }
    if (of.freedom != Freedom::recomputation) {
      EXPECT_EQ(free.plan.request.recompute, Recompute::full);
    }
    if (of.freedom != Freedom::sharding) {
      EXPECT_FALSE(free.request.assumptions.sharded_optimizer);
    }
  }
}

// Of a schedule that has a number of stages on each device by itself, too.
TEST(SetBeside, OneChangeKeepsAScheduleWithTwoStagesOnADevice) {
  ClusterQuestion question = testing::ask(testing::small_model(8, 512),
                                          cluster_of_nodes("p3.16xlarge"), 16, Bytes{8} << 30);
  const Published zbv{"", "", 16, "zbv", 1, 4, 1, StageCut::balanced};
  for (const FreedPlan& of : best_by_one_change(question, made(question, zbv))) {
    ASSERT_TRUE(of.best.has_value()) << name(of.freedom);
    if (of.freedom != Freedom::schedule) {
      EXPECT_EQ(of.best->plan.schedule, "zbv") << name(of.freedom);
    }
  }
}

}  // namespace
}  // namespace tandem
