// Published planners on a cluster: what they promise, what the exact simulation makes of it, and
// that ours is never slower.

#include "planner/published/referees.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "tests/support/sanitizers.h"

namespace tandem {
namespace {

ClusterQuestion ask(const std::string& model, const std::string& cluster, std::int64_t batch) {
  ClusterQuestion question;
  question.base.plan.model = find_model(model)->model;
  question.base.cluster = std::make_shared<const Cluster>(cluster_of_nodes(cluster));
  question.base.assumptions.reserve = kReserveOnCluster;
  question.global_batch = batch;
  return question;
}

/// How much slower ours is than the fastest form that fits, of all planners; at most 0: nowhere.
double most_behind(const ClusterQuestion& question, const ClusterQuestion& ours) {
  const double best_s = find_cluster_plans(ours).ranked.front().period_s;
  double behind = -1.0;
  for (const PublishedPlanner& planner : published_planners()) {
    const auto plan = planner.plan(question);
    const SimulatedForm* form = plan ? plan->best() : nullptr;
    if (form != nullptr && form->fits()) behind = std::max(behind, best_s / form->step_s - 1.0);
  }
  return behind;
}

TEST(Referees, OursIsNeverSlower) {
  std::size_t compared = 0;
  for (const char* model : {"gpt2", "gpt2-large"}) {
    for (const char* cluster : {"DGX-A100", "2xp3.16xlarge"}) {
      for (const std::int64_t batch : {16, 64}) {
        for (const bool vanilla : {false, true}) {
          if (testing::kSanitized && compared > 0) continue;  // minutes of such a build
          ClusterQuestion question = ask(model, cluster, batch);
          question.vanilla_only = vanilla;
          const double behind = most_behind(question, question);
          EXPECT_LE(behind, 1e-9) << model << " on " << cluster << ", batch " << batch;
          compared += behind > -1.0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(compared, testing::kSanitized ? 0u : 8u);
}

// The control: a search that may take one schedule alone, without pipelining, is behind.
TEST(Referees, APoorSearchIsBehind) {
  const ClusterQuestion question = ask("gpt2-large", "2xp3.16xlarge", 64);
  ClusterQuestion poor = question;
  poor.schedules = {"model-parallel"};
  poor.depth = 8;
  EXPECT_GT(most_behind(question, poor), 0.5);
}

// 2BW's model has neither bubble nor latency: the exact simulation is slower, but not by much.
TEST(Referees, WhatIsPromisedIsNearWhatIsSimulated) {
  const auto plan = find_published_planner("2bw").plan(ask("gpt2-xl", "8xp3.16xlarge", 512));
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->forms.size(), 1u);
  EXPECT_NEAR(plan->forms[0].step_s / plan->promised_s, 1.0, 0.25);
  EXPECT_EQ(plan->forms[0].made.request.cut, StageCut::even);
}

// Replicas that differ are simulated as PipeDream trains, beside the nearest even form.
TEST(Referees, UnequalReplicasAreSimulatedAsTheyTrain) {
  const auto plan = find_published_planner("pipedream").plan(ask("gpt3-6.7b", "4xDGX-A100", 512));
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->forms.size(), 2u) << plan->layout;
  const SimulatedForm& own = plan->forms[0];
  EXPECT_EQ(own.made.plan.schedule, "pipedream");
  EXPECT_EQ(own.made.devices, 32u);
  EXPECT_TRUE(own.untied);  // GPT-3's are shared
  EXPECT_FALSE(own.one_update_a_batch);
  EXPECT_EQ(plan->best(), &plan->forms[1]);  // the one that answers the question
  EXPECT_FALSE(plan->forms[1].untied);
  EXPECT_NE(own.made.request.global_batch, plan->forms[1].made.request.global_batch);
}

// Piper's stages: as they stand where they are alike, else as near as that comes.
TEST(Referees, PipersPlanIsSimulatedAsItStandsOrAsNearAsEqualStagesCome) {
  std::size_t as_they_stand = 0, near = 0;
  for (const char* model : {"gpt2-large", "gpt3-1.3b", "gpt-2.2b"}) {
    for (const std::int64_t batch : {16, 64, 512}) {
      const auto plan = find_published_planner("piper").plan(ask(model, "p3.16xlarge", batch));
      if (!plan) continue;
      ASSERT_EQ(plan->forms.size(), 1u);
      const SimulatedForm& form = plan->forms.front();
      EXPECT_TRUE(form.one_update_a_batch);
      EXPECT_EQ(form.made.request.global_batch, batch);
      const bool given = form.made.request.cut == StageCut::given;
      EXPECT_EQ(form.what.starts_with("its plan"), given) << form.what;
      (given ? as_they_stand : near) += 1;
      if (given && form.what == "its plan") {
        EXPECT_GE(form.step_s, 0.8 * plan->promised_s) << "its model has no bubble";
      }
    }
  }
  EXPECT_GT(as_they_stand + near, 5u);
}

// TeraPipe's slices: its model counts no sums, and each microbatch at the pace of equal stages.
TEST(Referees, TeraPipesSlicesAreSimulatedAsItsProgrammeCutsThem) {
  const ClusterQuestion question = ask("gpt3-6.7b", "8xp3.16xlarge", 64);
  const auto plan = find_published_planner("terapipe").plan(question);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->forms.size(), 1u);
  const SimulatedForm& form = plan->forms.front();
  EXPECT_TRUE(form.fits());
  EXPECT_EQ(form.made.plan.schedule, "terapipe");
  EXPECT_GT(form.made.plan.request.slices.count, 1);
  EXPECT_EQ(form.made.plan.request.slices.kind, Slicing::Kind::given);
  EXPECT_GE(form.step_s, plan->promised_s);
  EXPECT_LE(form.step_s, 1.5 * plan->promised_s);
}

TEST(Referees, WithoutPricesOfSlicesTeraPipeRefusesAndWithoutPipelinesItFindsNothing) {
  const PublishedPlanner& terapipe = find_published_planner("terapipe");
  EXPECT_THROW(terapipe.plan(ask("bert-large", "DGX-A100", 16)), InputError);
  ClusterQuestion measured = ask("gpt2", "DGX-A100", 16);
  measured.base.assumptions.measured = std::make_shared<const TensorProfiles>();
  EXPECT_THROW(terapipe.plan(measured), InputError);
  ClusterQuestion alone = ask("gpt2", "DGX-A100", 16);
  EXPECT_TRUE(terapipe.plan(alone).has_value());
  alone.most_devices = 1;
  EXPECT_FALSE(terapipe.plan(alone).has_value());
  ClusterQuestion odd = ask("gpt2", "DGX-A100", 16);
  odd.microbatch_size = 3;
  EXPECT_FALSE(terapipe.plan(odd).has_value());
}

TEST(Referees, UnlikeDevicesAreRefused) {
  ClusterSpec spec = cluster_of_nodes("2xp3.16xlarge");
  DeviceSpec other = spec.devices.front();
  other.name = "other";
  other.memory_bytes /= 2;
  spec.devices.push_back(other);
  const std::size_t node = *spec.groups[spec.root].members.front().group;
  for (ClusterMember& member : spec.groups[node].members) {
    if (!member.device) continue;
    ClusterMember half = member;
    member.count = 1;
    half.device = 1;
    half.count = 1;
    half.name = "other";
    spec.groups[node].members = {member, half, {.name = "bus"}};
    break;
  }
  spec.groups[node].joints = {{.from = {0, {}}, .to = {2, {}}, .link = {"link", 1e9, {}}},
                              {.from = {1, {}}, .to = {2, {}}, .link = {"link", 1e9, {}}}};
  spec.groups[node].port = 2;
  ClusterQuestion question = ask("gpt2", "2xp3.16xlarge", 16);
  question.base.cluster = std::make_shared<const Cluster>(spec);
  for (const PublishedPlanner& planner : published_planners())
    EXPECT_THROW(planner.plan(question), InputError) << planner.name;
}

TEST(Referees, UnknownNamesAreRefused) { EXPECT_THROW(find_published_planner("best"), UsageError); }

// Published configurations by our prices: 2BW's of GPT 2.2B on 64 V100s, recomputation on, depth 8.
TEST(Referees, NoPublishedConfigurationIsFaster) {
  if (testing::kSanitized) GTEST_SKIP() << "minutes of such a build";
  ClusterQuestion question = ask("gpt-2.2b", "8xp3.16xlarge", 512);
  ClusterQuestion theirs = question;
  theirs.schedules = {"2bw"};
  theirs.depth = 8;
  theirs.width = 8;
  theirs.tensor = 1;
  theirs.microbatch_size = 8;
  theirs.recompute = Recompute::stage;
  theirs.sharded_optimizer = false;
  const ClusterAnswer published = find_cluster_plans(theirs), ours = find_cluster_plans(question);
  ASSERT_FALSE(published.ranked.empty());
  EXPECT_LE(ours.ranked.front().period_s, published.ranked.front().period_s);
}

}  // namespace
}  // namespace tandem
