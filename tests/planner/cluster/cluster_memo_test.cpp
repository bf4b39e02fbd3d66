// What plans of one cluster share is what each would have made for itself.

#include "planner/cluster/cluster_memo.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/model/catalog.h"
#include "planner/cluster/cluster_setup.h"

namespace tandem {
namespace {

Plan plan_of_four(const std::string& schedule, std::uint16_t width, std::int32_t microbatches,
                  Recompute recompute = Recompute::none) {
  Plan plan;
  plan.model = find_model("llama-2-7b")->model;
  plan.schedule = schedule;
  plan.request.devices = 4;
  plan.request.width = width;
  plan.request.microbatches = microbatches;
  plan.request.recompute = recompute;
  if (find_schedule(schedule).replicas_per_device == 0) plan.request.chunks = 2;
  return plan;
}

TEST(KnownSchedules, AreThoseThatThePlanHas) {
  KnownSchedules known;
  std::vector<Plan> plans;
  for (const char* schedule :
       {"1f1b", "gpipe", "2bw", "interleaved", "zbv", "v-half", "zbv-auto"}) {
    for (const std::uint16_t width : std::vector<std::uint16_t>{1, 2, 3}) {
      for (const std::int32_t microbatches : {8, 12}) {
        for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::stage})
          plans.push_back(plan_of_four(schedule, width, microbatches, recompute));
      }
    }
  }
  // A second time they are all known, or have been given up.
  for (int round = 0; round < 2; ++round) {
    for (const Plan& plan : plans) {
      const auto lowered = known.of(plan);
      const Schedule own = make_schedule(plan);
      EXPECT_TRUE(lowered->schedule() == own) << plan.schedule;
      EXPECT_EQ(lowered->program().cost_keys(), lower(own).cost_keys()) << plan.schedule;
    }
  }
}

TEST(KnownSchedules, AreMadeOnceForPlansThatDifferInPricesAlone) {
  KnownSchedules known;
  const auto first = known.of(plan_of_four("1f1b", 2, 8));
  Plan larger = plan_of_four("1f1b", 2, 8, Recompute::full);
  larger.microbatch_size = 4;
  EXPECT_EQ(known.of(larger), first);
  EXPECT_NE(known.of(plan_of_four("1f1b", 3, 8)), first);
  EXPECT_NE(known.of(plan_of_four("1f1b", 2, 8, Recompute::stage)), first);
  EXPECT_NE(known.of(plan_of_four("gpipe", 2, 8)), first);
}

TEST(KnownSchedules, RefuseWhatMakingOneRefuses) {
  KnownSchedules known;
  known.of(plan_of_four("paci", 1, 8));
  EXPECT_THROW(known.of(plan_of_four("paci", 1, 8, Recompute::full)), InputError);
  Plan corrected = plan_of_four("1f1b", 1, 8);
  known.of(corrected);
  corrected.optimizer.correction = DelayCorrection::error_feedback;
  EXPECT_THROW(known.of(corrected), InputError);
}

TEST(ClusterMemo, ChangesNoAnswer) {
  ClusterRequest request;
  request.cluster = std::make_shared<const Cluster>(cluster_of_nodes("2xDGX-A100"));
  request.assumptions.format = NumberFormat::bf16;
  request.global_batch = 64;
  const auto memo = std::make_shared<ClusterMemo>(request.cluster);
  for (const char* schedule : {"1f1b", "zbv-auto", "2bw", "interleaved"}) {
    for (const std::int32_t tensor : {1, 2}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        request.plan = plan_of_four(schedule, 1, 1, recompute);
        request.assumptions.tensor = tensor;
        request.memo = nullptr;
        const ClusterSetup alone = set_up_on_cluster(request);
        request.memo = memo;
        const ClusterSetup shared = set_up_on_cluster(request);
        EXPECT_EQ(shared.made.plan.stages, alone.made.plan.stages) << schedule;
        EXPECT_EQ(shared.made.plan.request, alone.made.plan.request) << schedule;
        EXPECT_EQ(period_s(shared.made, false), period_s(alone.made, false)) << schedule;
        EXPECT_EQ(shared.made.figures.framework.rows(), alone.made.figures.framework.rows());
        EXPECT_EQ(shared.made.figures.tandem.rows(), alone.made.figures.tandem.rows());
      }
    }
  }
}

}  // namespace
}  // namespace tandem
