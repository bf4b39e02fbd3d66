// As few blocks made again as fit, and no slower for it.

#include "planner/cluster/fewer_made_again.h"

#include <gtest/gtest.h>

#include "planner/cluster/set_beside.h"
#include "tests/planner/cluster/small_question.h"

namespace tandem {
namespace {

using testing::ask;
using testing::small_model;

/// 1F1B on four devices: without recomputation it does not fit in the least of these memories, in
/// the most it does.
ClusterQuestion question_with(Bytes memory) {
  ClusterQuestion question =
      ask(small_model(16, 1024), cluster_of_nodes("p3.16xlarge"), 16, memory);
  question.schedules = {"1f1b"};
  question.tensor = 1;
  question.depth = 2;
  question.width = 1;
  question.microbatch_size = 8;
  question.most_devices = 2;
  return question;
}

bool fits(const ClusterCandidate& of, std::uint16_t blocks) {
  ClusterRequest request = of.request;
  request.plan.request.recompute = Recompute::blocks(blocks);
  return set_up_on_cluster(request).made.fits();
}

TEST(FewerMadeAgain, AsFewAsFit) {
  std::size_t found = 0;
  for (Bytes memory = Bytes{1000} << 20; memory < Bytes{6000} << 20; memory += Bytes{60} << 20) {
    const ClusterAnswer answer = find_cluster_plans(question_with(memory));
    if (answer.ranked.empty()) continue;
    const auto fewer = with_fewer_made_again(answer);
    if (!fewer) continue;
    ++found;
    const ClusterCandidate& best = answer.ranked.front();
    EXPECT_LT(fewer->period_s, best.period_s);
    const Recompute recompute = fewer->plan.request.recompute;
    EXPECT_EQ(recompute.kind, Recompute::Kind::blocks);
    EXPECT_TRUE(fits(*fewer, recompute.count));
    EXPECT_FALSE(recompute.count > 1 && fits(*fewer, recompute.count - 1));
    // A search that is told so many finds a plan at least as good.
    ClusterQuestion told = question_with(memory);
    told.recompute = recompute;
    EXPECT_LE(find_cluster_plans(told).ranked.front().period_s, fewer->period_s);
  }
  EXPECT_GT(found, 2u);
}

TEST(FewerMadeAgain, NoneWhereNothingIs) {
  const ClusterAnswer answer = find_cluster_plans(question_with(Bytes{30} << 30));
  EXPECT_EQ(answer.ranked.front().plan.request.recompute, Recompute::none);
  EXPECT_FALSE(with_fewer_made_again(answer));
}

}  // namespace
}  // namespace tandem
