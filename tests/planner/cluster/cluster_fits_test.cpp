// What is offered instead of a plan that doesn't fit on its cluster.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/progress.h"
#include "core/model/catalog.h"
#include "core/schedule/options.h"
#include "planner/cluster/cluster_plan.h"
#include "planner/search/nearest_fits.h"

namespace tandem {
namespace {

FitRequest request_of(const std::string& model, const std::string& schedule, std::uint16_t width,
                      std::uint16_t depth, std::int32_t microbatch_size,
                      std::int32_t microbatches) {
  FitRequest request;
  request.plan.model = find_model(model)->model;
  request.plan.schedule = schedule;
  request.plan.request.width = width;
  request.plan.request.devices = depth;
  request.plan.microbatch_size = microbatch_size;
  request.plan.request.microbatches = microbatches;
  return request;
}

ClusterPlan make(const FitRequest& request, const Cluster& cluster) {
  const ClusterLayout layout(cluster, request.plan.request.width, request.plan.request.devices,
                             request.order, static_cast<std::size_t>(request.assumptions.tensor));
  return plan_on_cluster(request.plan, layout, request.assumptions, request.cut);
}

bool has(const NearFit& one, FitChange change) {
  return std::ranges::count(one.changes, change) > 0;
}

std::int64_t samples(const Plan& plan) {
  return std::int64_t{plan.request.width} * plan.request.microbatches * plan.microbatch_size;
}

/// Each fits as it says, on as many devices, for as many samples, and is changed where it says so.
void check_each(const FitRequest& from, const Cluster& cluster, const std::vector<NearFit>& found) {
  const auto devices = [](const FitRequest& request) {
    return request.plan.request.width * request.plan.request.devices * request.assumptions.tensor;
  };
  EXPECT_LE(found.size(), 6u);
  std::size_t before = 1;
  for (const NearFit& one : found) {
    const ClusterPlan made = make(one.request, cluster);
    EXPECT_TRUE(made.fits());
    Bytes most = 0;
    for (const MemoryByClass& of : made.memory) most = std::max(most, of.total());
    EXPECT_EQ(one.peak_bytes, most);
    EXPECT_EQ(made.memory[one.fullest].total(), most);
    EXPECT_EQ(devices(one.request), devices(from));
    const Plan& plan = one.request.plan;
    if (!has(one, FitChange::global_batch)) {
      EXPECT_EQ(samples(plan), samples(from.plan));
    }
    EXPECT_EQ(has(one, FitChange::depth), plan.request.devices != from.plan.request.devices);
    EXPECT_EQ(has(one, FitChange::recompute),
              plan.request.recompute != from.plan.request.recompute);
    EXPECT_EQ(has(one, FitChange::schedule) || has(one, FitChange::slices),
              plan.schedule != from.plan.schedule);
    EXPECT_EQ(has(one, FitChange::microbatch_size),
              plan.microbatch_size != from.plan.microbatch_size);
    EXPECT_EQ(has(one, FitChange::tensor), one.request.assumptions.tensor != 1);
    EXPECT_EQ(has(one, FitChange::zero), one.request.assumptions.sharded_optimizer);
    EXPECT_GE(one.changes.size(), before);  // the nearest first
    before = one.changes.size();
  }
}

TEST(NearestClusterFits, SharesTheDevicesOutAnew) {
  const Cluster cluster(cluster_of_nodes("4xp3.16xlarge"));
  const FitRequest request = request_of("gpt3-2.7b", "2bw", 8, 4, 4, 16);
  ASSERT_FALSE(make(request, cluster).fits());
  const std::vector<NearFit> found = nearest_fits(request, cluster);
  const auto offers = [&](const std::vector<FitChange>& changes) {
    return std::ranges::any_of(found, [&](const NearFit& one) { return one.changes == changes; });
  };
  EXPECT_TRUE(offers({FitChange::tensor}));
  EXPECT_TRUE(offers({FitChange::recompute, FitChange::depth}));
  check_each(request, cluster, found);
}

/// By trying all: nothing that changes less of the same kinds fits.
TEST(NearestClusterFits, NoneIsMoreThanItTakes) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const FitRequest request = request_of("gpt2-xl", "1f1b", 2, 4, 8, 8);
  ASSERT_FALSE(make(request, cluster).fits());
  const std::vector<NearFit> found = nearest_fits(request, cluster);
  ASSERT_FALSE(found.empty());
  check_each(request, cluster, found);
  for (const NearFit& one : found) {
    if (!has(one, FitChange::microbatch_size)) continue;
    FitRequest milder = one.request;  // the next larger microbatch
    milder.plan.microbatch_size *= 2;
    milder.plan.request.microbatches /= 2;
    EXPECT_FALSE(make(milder, cluster).fits());
  }
}

TEST(NearestClusterFits, GpipeIsDrainedMoreOftenOrReplaced) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const FitRequest request = request_of("gpt2-xl", "gpipe", 1, 8, 1, 64);
  ASSERT_FALSE(make(request, cluster).fits());
  const std::vector<NearFit> found = nearest_fits(request, cluster);
  check_each(request, cluster, found);
  for (const FitChange change :
       {FitChange::schedule, FitChange::group, FitChange::recompute, FitChange::global_batch}) {
    EXPECT_TRUE(std::ranges::any_of(found, [&](const NearFit& one) {
      return one.changes == std::vector{change};
    })) << static_cast<int>(change);
  }
  for (const NearFit& one : found) {
    if (has(one, FitChange::schedule)) {
      EXPECT_EQ(one.request.plan.schedule, "1f1b");
    }
  }
}

TEST(NearestClusterFits, TensorParallelismStaysWithinANode) {
  const auto most_tensor = [](std::int32_t devices, const std::string& nodes) {
    ClusterSpec spec = cluster_of_nodes(nodes);
    for (GroupSpec& group : spec.groups) {
      for (ClusterMember& member : group.members) {
        if (member.count == 8) member.count = devices;  // of GPUs, and adapters
      }
    }
    const Cluster cluster(spec);
    EXPECT_EQ(cluster.size(), 32u);
    std::int32_t most = 1;
    for (const NearFit& one : nearest_fits(request_of("gpt3-13b", "1f1b", 16, 2, 4, 4), cluster))
      most = std::max(most, one.request.assumptions.tensor);
    return most;
  };
  EXPECT_GT(most_tensor(8, "4xDGX-H100"), 2);
  EXPECT_LE(most_tensor(2, "16xDGX-H100"), 2);
  EXPECT_EQ(most_tensor(1, "32xDGX-H100"), 1);
}

TEST(NearestClusterFits, NothingIsOfferedWhereNothingFits) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  EXPECT_TRUE(nearest_fits(request_of("gpt3-175b", "1f1b", 1, 8, 1, 8), cluster).empty());
}

TEST(NearestClusterFits, MoreNodesAreAWayOut) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const FitRequest request = request_of("gpt3-13b", "1f1b", 1, 8, 1, 8);
  ASSERT_FALSE(make(request, cluster).fits());
  const auto of_nodes = [](std::size_t nodes) {
    return Cluster(cluster_of_nodes(std::to_string(nodes) + "xp3.16xlarge"));
  };
  bool alone = false;
  for (const NearFit& one : nearest_fits(request, cluster, of_nodes)) {
    if (!has(one, FitChange::nodes)) continue;
    alone = alone || one.changes == std::vector{FitChange::nodes};
    const ClusterPlan made = make(one.request, of_nodes(one.request.nodes));
    EXPECT_TRUE(made.fits());
    EXPECT_EQ(made.plan.request.width, 1);
    if (!has(one, FitChange::global_batch)) {
      EXPECT_EQ(samples(made.plan), samples(request.plan));
    }
    EXPECT_GT(one.request.nodes, 1u);
  }
  EXPECT_TRUE(alone);
  for (const NearFit& one : nearest_fits(request, cluster))
    EXPECT_FALSE(has(one, FitChange::nodes));
}

/// Of 16,384 devices as well: what is tried are plans, and devices that are alike are looked at
/// once.
TEST(NearestClusterFits, TriesAsManyPlansOnAnyCluster) {
  struct Count : ProgressListener {
    void began(const Activity&, const std::string&, std::int64_t) override {}
    void stepped(const Activity&, std::int64_t more) override { steps += more; }
    void said(const Activity&, const std::function<std::string()>&) override {}
    void ended(const Activity&) override {}
    void keep_going() override {}
    std::int64_t steps = 0;
  } count;
  const Cluster cluster(cluster_of_nodes("256xDGX-H100"));
  listen_to_progress(&count);
  nearest_fits(request_of("gpt3-175b", "1f1b", 256, 8, 1, 4), cluster);
  listen_to_progress(nullptr);
  EXPECT_GT(count.steps, 10);
  EXPECT_LT(count.steps, 1000);
}

/// A sequence of which one alone, whole, is too much for any schedule, whatever it recomputes.
TEST(NearestClusterFits, LongSequencesFitInSlicesAlone) {
  const Cluster cluster(cluster_of_nodes("p4d.24xlarge"));
  FitRequest request = request_of("mistral-7b", "1f1b", 1, 8, 1, 16);
  request.plan.model.sequence = 131'072;
  request.assumptions.format = NumberFormat::bf16;
  request.assumptions.attention = AttentionKernel::flash;
  int tried = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::stage}) {
    request.plan.request.recompute = recompute;
    for (const ScheduleTraits& row : schedules()) {
      FitRequest whole = request;
      whole.plan.schedule = row.name;
      fit_options(row, whole.plan.request);
      const bool dear = row.orders_by_costs || row.replicas_per_stage > 1;
      if (!row.whole.empty() || dear || reason_against(row, whole.plan.request)) continue;
      EXPECT_FALSE(make(whole, cluster).fits()) << row.name << " " << name(recompute);
      ++tried;
    }
  }
  EXPECT_GT(tried, 20);
  request.plan.request.recompute = Recompute::full;
  const std::vector<NearFit> found = nearest_fits(request, cluster);
  const auto slices = std::ranges::find(found, std::vector{FitChange::slices}, &NearFit::changes);
  ASSERT_NE(slices, found.end());
  EXPECT_EQ(slices->request.plan.schedule, "seq1f1b");
  EXPECT_EQ(slices->request.plan.request.slices.count, 4);
  check_each(request, cluster, found);
  request.plan.model.sequence = 2048;
  request.plan.microbatch_size = 32;
  request.plan.request.recompute = Recompute::none;
  ASSERT_FALSE(make(request, cluster).fits());
  for (const NearFit& one : nearest_fits(request, cluster))
    EXPECT_FALSE(has(one, FitChange::slices));  // short ones would be slow
}

}  // namespace
}  // namespace tandem
