// Where nodes are unequal, the answer is the best of every order of them, and its bound holds in
// all.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/node_order.h"
#include "planner/cluster/cluster_search.h"
#include "tests/planner/cluster/small_question.h"

namespace tandem {
namespace {

using testing::ask;
using ::testing::ElementsAre;
using testing::small_model;
using testing::uneven_cluster;

std::vector<std::string> nodes_of(const ClusterAnswer& answer) {
  return node_order(answer.ranked.front().request.cluster->spec());
}

/// The answers in each order alone, the cluster's own first.
std::vector<ClusterAnswer> in_each_order(ClusterQuestion question) {
  std::vector<ClusterAnswer> all;
  question.given_node_order = true;
  for (const ClusterSpec& spec : node_orders(question.base.cluster->spec())) {
    question.base.cluster = std::make_shared<const Cluster>(spec);
    all.push_back(find_cluster_plans(question));
  }
  return all;
}

/// Half of the devices compute half as fast, and are counted first.
ClusterQuestion slow_first_question(std::int64_t devices) {
  ClusterSpec spec = in_node_order(uneven_cluster(), {"slow", "node"});
  spec.devices.back().typical = spec.devices.front().typical;
  ClusterQuestion question = ask(small_model(5, 2048), spec, 8, Bytes{8} << 30);
  question.most_devices = devices;
  question.schedules = {"1f1b", "2bw", "interleaved"};
  question.microbatch_size = 1;
  return question;
}

/// It is better by far than the cluster's own where a plan takes half of the devices.
TEST(EveryNodeOrder, IsTheBestOfEach) {
  for (const std::int64_t devices : {8, 16}) {
    const ClusterQuestion question = slow_first_question(devices);
    const std::vector<ClusterAnswer> each = in_each_order(question);
    ASSERT_EQ(each.size(), 2u);
    const ClusterAnswer answer = find_cluster_plans(question);
    const double best = std::min(each[0].ranked.front().period_s, each[1].ranked.front().period_s);
    EXPECT_EQ(answer.ranked.front().period_s, best);
    EXPECT_DOUBLE_EQ(answer.bound, best);
    EXPECT_LE(answer.any_cut, std::min(each[0].any_cut, each[1].any_cut) * (1 + 1e-9));
    if (devices == 8) {
      EXPECT_GT(each[0].ranked.front().period_s, 1.2 * best);
      EXPECT_THAT(nodes_of(answer), ElementsAre("node", "slow"));
    }
    for (const ScheduleOutcome& of : answer.schedules) {
      const double least = of.best ? of.best->period_s : of.bound;
      EXPECT_GE(least, best) << of.schedule->name;
    }
  }
}

TEST(EveryNodeOrder, RanksEachShapeOnce) {
  const ClusterAnswer answer = find_cluster_plans(slow_first_question(8));
  std::set<CandidateShape> seen;
  for (const ClusterCandidate& one : answer.ranked)
    EXPECT_TRUE(seen.insert(shape_of(one)).second) << one.plan.schedule;
  EXPECT_GT(seen.size(), 3u);
}

/// The order that was given, though another is better.
TEST(EveryNodeOrder, AGivenOneIsKept) {
  ClusterQuestion question = slow_first_question(8);
  question.given_node_order = true;
  EXPECT_THAT(nodes_of(find_cluster_plans(question)), ElementsAre("slow", "node"));
  question.given_node_order = false;
  EXPECT_THAT(nodes_of(find_cluster_plans(question)), ElementsAre("node", "slow"));
}

/// Without any time left, what is said to be the least is no more than what a whole search finds.
TEST(EveryNodeOrder, StoppedItStillHasABound) {
  const ClusterQuestion question = slow_first_question(8);
  const double best = find_cluster_plans(question).ranked.front().period_s;
  int turns = 0;
  const ClusterAnswer stopped = find_cluster_plans(question, [&] { return ++turns > 40; });
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_GT(stopped.bound, 0.0);
  EXPECT_LE(stopped.bound, best);
}

}  // namespace
}  // namespace tandem
