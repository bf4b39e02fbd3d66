// Prices on a cluster so small that its links are counted by hand.

#include "simulator/cost/cluster_costs.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/model/catalog.h"
#include "core/program/cost.h"
#include "core/schedule/schedule.h"
#include "simulator/cost/analytic_slices.h"
#include "tests/simulator/exactly.h"
#include "tests/support/device_ids.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using testing::d;
using testing::exactly;

/// Two nodes of two devices. Inside 100 bytes/s; out of a node 10 bytes/s, in one link for both
/// devices, or in one for each.
ClusterSpec two_nodes(bool own_ways_out = false) {
  DeviceSpec card{.name = "card", .memory_bytes = 1000, .memory_bytes_per_s = 1e6};
  card.flops_per_s.fill(1e6);
  const LinkSpec inner{.name = "inner", .bytes_per_s = 100, .latency = {}};
  ClusterSpec spec{.name = "two", .devices = {card}, .groups = {}, .root = 1};
  spec.groups.push_back(
      {.name = "node",
       .members = {{.name = "gpu", .device = 0, .count = 2},
                   {.name = "bus"},
                   {.name = "nic", .count = own_ways_out ? 2 : 1}},
       .joints = {{{.member = 0}, {.member = 1}, inner}, {{.member = 0}, {.member = 2}, inner}},
       .port = 2});
  spec.groups.push_back(
      {.name = "room",
       .members = {{.name = "node", .group = 0, .count = 2}, {.name = "hub"}},
       .joints = {{{.member = 0},
                   {.member = 1},
                   {.name = "outer", .bytes_per_s = 10, .latency = microseconds(3)}}}});
  return spec;
}

/// Links that reach this share of their rates.
Calibration at(double fraction) {
  return {.link_fraction = fraction, .network_fraction = fraction};
}

TEST(ClusterLayout, PutsReplicasOrStagesSideBySide) {
  const Cluster cluster(two_nodes());
  const ClusterLayout replicas(cluster, 2, 2, DeviceOrder::replicas_first);
  EXPECT_EQ(replicas.at(d(0), 1), d(1));
  EXPECT_EQ(replicas.at(d(1), 0), d(2));
  const ClusterLayout stages(cluster, 2, 2, DeviceOrder::stages_first);
  EXPECT_EQ(stages.at(d(0), 1), d(2));
  EXPECT_EQ(stages.at(d(1), 0), d(1));
  EXPECT_EQ(stages.memory(d(1)), 1000);
}

TEST(ClusterLayout, ReplicasShareTheLinksTheyCross) {
  const Cluster cluster(two_nodes());
  const ClusterLayout replicas(cluster, 2, 2, DeviceOrder::replicas_first);
  EXPECT_EQ(replicas.transfer(d(0), d(1), 50, at(1.0)), seconds(10) + microseconds(6));
  EXPECT_EQ(replicas.transfer(d(0), d(1), 50, at(0.5)), seconds(20) + microseconds(6));
  EXPECT_EQ(
      ClusterLayout(cluster, 2, 2, DeviceOrder::stages_first).transfer(d(0), d(1), 50, at(1.0)),
      microseconds(500'000));
  // Alone: the whole link. With a link each: the whole of it too.
  EXPECT_EQ(
      ClusterLayout(cluster, 1, 4, DeviceOrder::stages_first).transfer(d(1), d(2), 50, at(1.0)),
      seconds(5) + microseconds(6));
  const Cluster wide(two_nodes(true));
  EXPECT_EQ(
      ClusterLayout(wide, 2, 2, DeviceOrder::replicas_first).transfer(d(0), d(1), 50, at(1.0)),
      seconds(5) + microseconds(6));
}

TEST(ClusterLayout, GroupsAreAlikeWhereDevicesAreOfOneKindAndSumAtOnePace) {
  ClusterSpec spec = two_nodes();
  const auto alike = [&](std::size_t depth, std::size_t tensor) {
    const Cluster cluster(spec);
    return ClusterLayout(cluster, 1, depth, DeviceOrder::replicas_first, tensor).alike_groups();
  };
  EXPECT_TRUE(alike(4, 1));
  EXPECT_TRUE(alike(2, 2));
  for (GroupSpec& group : spec.groups) {
    if (group.members.front().device) group.members.front().count = 3;
  }
  EXPECT_TRUE(alike(6, 1));
  EXPECT_FALSE(alike(3, 2)) << "the second group of two is on both nodes";
  spec = two_nodes();
  spec.devices.push_back(spec.devices.front());
  spec.groups.push_back(spec.groups.front());
  spec.groups.back().members.front().device = 1;
  spec.groups[1].members.front().count = 1;
  EXPECT_TRUE(alike(2, 1));
  spec.groups[1].members.push_back({.name = "other", .group = 2});
  spec.groups[1].joints.push_back(
      {{.member = 2}, {.member = 1}, {.name = "outer", .bytes_per_s = 10, .latency = {}}});
  EXPECT_TRUE(alike(2, 1));
  EXPECT_FALSE(alike(4, 1)) << "a node has devices of another kind";
}

TEST(ClusterLayout, WhatWouldNeverArriveIsRefused) {
  const Cluster cluster(two_nodes());
  const ClusterLayout layout(cluster, 2, 2, DeviceOrder::replicas_first);
  const auto error = [](auto call) -> std::string {
    try {
      call();
    } catch (const InputError& thrown) {
      return thrown.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error([&] { layout.transfer(d(0), d(1), Bytes{1} << 40, at(1.0)); }),
            "1.1e+12 bytes at 5 bytes a second would take 2.2e+11 s: expected at most a day");
  EXPECT_EQ(
      error([&] { layout.all_reduce(layout.sum_ways({{d(0), d(2)}}), {1'000'000}, at(1.0)); }),
      "an all-reduce of 1000000 bytes over 2 devices would take 1e+05 s: expected at most a day");
  EXPECT_EQ(error([&] { layout.all_reduce(layout.sum_ways({{d(0), d(2)}}), {100'000}, at(1.0)); }),
            "nothing");
}

TEST(ClusterLayout, LargeNodesHaveNoMoreRingsThanChannels) {
  ClusterSpec spec = two_nodes();
  for (GroupSpec& group : spec.groups) {
    if (group.members.front().device) group.members.front().count = 40;
  }
  const Cluster cluster(spec);
  const ClusterLayout layout(cluster, cluster.size(), 1, DeviceOrder::replicas_first);
  std::vector<DeviceId> all;
  for (std::size_t i = 0; i < cluster.size(); ++i) all.push_back(d(i));
  EXPECT_EQ(layout.rings(all).size(), 2u * 32);
  all.erase(all.begin() + 10, all.begin() + 40);
  all.erase(all.begin() + 20, all.end());
  EXPECT_EQ(layout.rings(all).size(), 2u * 10);
}

TEST(ClusterLayout, RingsOfAllStagesShareTheLinksTheyCross) {
  const Cluster cluster(two_nodes());
  const ClusterLayout layout(cluster, 2, 2, DeviceOrder::replicas_first);
  const auto sum = [&](const ClusterLayout& of, std::vector<std::vector<DeviceId>> groups) {
    return of.all_reduce(of.sum_ways(groups), std::vector<Bytes>(groups.size(), 100), at(1.0));
  };
  // Within nodes: 2 (n - 1) / n of the bytes, 1 s.
  EXPECT_EQ(sum(layout, {{d(0), d(1)}, {d(2), d(3)}}), std::vector<Duration>(2, seconds(1)));
  // Across, alone: 10 s and two steps of latency. Two of them: each gets half of the link.
  EXPECT_EQ(sum(layout, {{d(0), d(2)}}), std::vector<Duration>(1, seconds(10) + microseconds(12)));
  EXPECT_EQ(sum(layout, {{d(0), d(2)}, {d(1), d(3)}}),
            std::vector<Duration>(2, seconds(20) + microseconds(12)));
  // Stages on the same devices take turns.
  EXPECT_EQ(sum(layout, {{d(0), d(2)}, {d(0), d(2)}}),
            std::vector<Duration>(2, seconds(10) + microseconds(12)));
  // All four: each node sums its own, 0.5 s of a way that carries 200, and then the bytes go over
  // the one way out, or half of them over each of two. A ring would send 3/2 of them there.
  EXPECT_EQ(sum(layout, {{d(0), d(1), d(2), d(3)}}),
            std::vector<Duration>(1, microseconds(10'500'000 + 12)));
  const Cluster wide(two_nodes(true));
  EXPECT_EQ(sum(ClusterLayout(wide, 2, 2, DeviceOrder::replicas_first), {{d(0), d(1), d(2), d(3)}}),
            std::vector<Duration>(1, microseconds(5'500'000 + 12)));
  // One device has nothing to sum.
  EXPECT_EQ(sum(layout, {{d(3)}}), std::vector<Duration>(1, Duration{}));
}

TEST(ClusterLayout, RingsGoBothWays) {
  // The ring of double links of eight V100s: 50 GB/s each way, half of the bytes around each.
  const Cluster mesh(cluster_of_nodes("p3.16xlarge"));
  const ClusterLayout layout(mesh, 8, 1, DeviceOrder::replicas_first);
  std::vector<DeviceId> all;
  for (std::size_t i = 0; i < 8; ++i) all.push_back(d(i));
  const auto times = layout.all_reduce(layout.sum_ways({all}), {800'000'000}, at(1.0));
  EXPECT_EQ(times[0], microseconds(14'000) + 14 * std::chrono::nanoseconds(3400));
}

TEST(ClusterLayout, AGroupSharesEachLayerAndWhatItSends) {
  const Cluster cluster(two_nodes());
  const ClusterLayout layout(cluster, 1, 2, DeviceOrder::replicas_first, 2);
  EXPECT_EQ(layout.at(d(1), 0, 1), d(3));
  // 25 bytes from each member, over the one way out.
  EXPECT_EQ(layout.transfer(d(0), d(1), 50, at(1.0)), seconds(5) + microseconds(6));
}

Plan two_stages() {
  Plan plan;
  plan.model = {.blocks = 1, .width = 4, .heads = 2, .sequence = 8, .vocabulary = 16};
  plan.schedule = "1f1b";
  plan.request.width = plan.request.devices = 2;
  plan.request.microbatches = 4;
  plan.stages = {{0, 2}, {2, 4}};
  return plan;
}

TEST(ClusterCosts, PriceEveryOpOfAProgram) {
  const Cluster cluster(two_nodes());
  const Plan plan = two_stages();
  const ClusterLayout layout(cluster, 2, 2, DeviceOrder::replicas_first);
  const Program program = lower(make_schedule(plan));
  const StageCosts costs = cluster_costs(plan, program.placement(), layout, exactly());
  const CostTable prices = price(program, cost_model(program.placement(), costs));
  const StageTimes first = analytic_layers(plan.model, 1, plan.request.recompute, plan.optimizer,
                                           cluster[d(0)], exactly())
                               .of({0, 2});
  for (const CostId id : ids(prices)) {
    const CostKey& key = program.cost_keys()[id];
    if (key.kind == OpKind::send_activation || key.kind == OpKind::send_gradient) {
      // 8 · 4 numbers of 4 bytes, from both replicas at once.
      EXPECT_EQ(prices[id], microseconds(25'600'006));
    }
    if (key.kind == OpKind::forward && key.replica == ReplicaId{0}) {
      EXPECT_EQ(prices[id], first.forward);
    }
    if (key.kind == OpKind::reduce_tied) {
      // Half of the table of 16 · 4 numbers there, and back.
      EXPECT_EQ(prices[id], 2 * microseconds(25'600'006));
    }
    if (key.kind == OpKind::reduce_gradient && key.replica == ReplicaId{0}) {
      const std::int64_t parameters = (16 + 8) * 4 + 4 * 16 + 6 * 4;
      EXPECT_EQ(prices[id], microseconds(parameters * 4 * 10'000));
    }
  }
}

TEST(ClusterCosts, AGroupSumsWhatItsLayersMakeAndGathersWhatItIsSent) {
  const Cluster cluster(two_nodes());
  Plan plan = two_stages();
  plan.request.width = 1;
  AnalyticAssumptions shared = exactly();
  shared.tensor = 2;
  const ClusterLayout layout(cluster, 1, 2, DeviceOrder::replicas_first, 2);
  const Schedule schedule = make_schedule(plan);
  const StageCosts costs = cluster_costs(plan, schedule.placement, layout, shared);
  // 128 bytes around two devices at 100 a second: 1.28 s for the embedding and for attention.
  const StageTimes alone =
      analytic_layers(plan.model, 1, plan.request.recompute, plan.optimizer, cluster[d(0)], shared)
          .of({0, 2});
  EXPECT_EQ(costs.stages[StageId{0}].forward, alone.forward + 2 * microseconds(1'280'000));
  // 64 bytes of each member's over 5 bytes/s, and half of a sum.
  EXPECT_EQ(costs.ways[1], microseconds(12'800'006 + 640'000));
  EXPECT_EQ(costs.stages[StageId{0}].reduce, Duration{});  // one pipeline
}

TEST(ClusterCosts, ASlicesTimeIsAStagesShareAndTheSlowestTransferThereAndBack) {
  const Cluster cluster(two_nodes());
  Plan plan = two_stages();
  plan.request.width = 1;
  AnalyticAssumptions assumptions = exactly();
  const auto time = [&](std::size_t devices, SequencePart part) {
    const ClusterLayout layout(cluster, 1, devices, DeviceOrder::replicas_first);
    const auto stages = static_cast<std::int64_t>(devices);
    return analytic_slice_time(plan, layout, assumptions, stages)(part);
  };
  for (const SequencePart part : {SequencePart{8, 0}, {3, 0}, {3, 5}, {1, 6}}) {
    const StageTimes all = analytic_layers(plan.model, 1, plan.request.recompute, plan.optimizer,
                                           cluster[d(0)], assumptions, {}, part)
                               .of({0, 4});
    const Duration layers = all.forward + all.backward;
    EXPECT_EQ(time(1, part), layers);
    // 4 numbers of 4 bytes a token, at 100 bytes a second within a node and 10 between them.
    EXPECT_EQ(time(2, part), layers / 2 + 2 * microseconds(160'000 * part.tokens));
    EXPECT_EQ(time(4, part), layers / 4 + 2 * microseconds(1'600'000 * part.tokens + 6));
  }
  EXPECT_GT(time(4, {3, 5}), time(4, {3, 0}));
  const Duration plain = time(2, {3, 5});
  assumptions.calibration = {.transfer_s = 2.0};
  EXPECT_EQ(time(2, {3, 5}), plain + seconds(4));
}

TEST(ClusterCosts, MeasuredConstantsPriceSums) {
  const Cluster cluster(two_nodes());
  const Plan plan = two_stages();
  AnalyticAssumptions measured = exactly();
  measured.collectives = CollectiveConstants{.launch_s = 1.0,
                                             .node_hop_s = 3.0,
                                             .simple_s = 7.0,
                                             .low_latency_bytes_per_s = 1e-9,  // never chosen
                                             .within_node_bytes_per_s = 10.0,
                                             .between_nodes_bytes_per_s = 2.0};
  const auto first_sum = [&](const AnalyticAssumptions& assumptions, DeviceOrder order) {
    const ClusterLayout layout(cluster, 2, 2, order);
    const StageCosts costs =
        cluster_costs(plan, make_schedule(plan).placement, layout, assumptions);
    return to_seconds(costs.stages[StageId{0}].reduce);
  };
  const double bytes = 4.0 * ((16 + 8) * 4 + 4 * 16 + 6 * 4);
  // Side by side: all bytes at 10 a second; else two hops at least, and the one way out of each.
  EXPECT_NEAR(first_sum(measured, DeviceOrder::replicas_first), 1 + 7 + bytes / 10, 1e-3);
  EXPECT_NEAR(first_sum(measured, DeviceOrder::stages_first), 1 + 2 * 3 + 7 + bytes / 2, 1e-3);
  EXPECT_NEAR(first_sum(exactly(), DeviceOrder::replicas_first), bytes / 100, 1e-3);
}

TEST(ClusterCosts, AShardedOptimizerScattersGradientsAndGathersWeights) {
  const Cluster cluster(two_nodes());
  const Plan plan = two_stages();
  const ClusterLayout layout(cluster, 2, 2, DeviceOrder::replicas_first);
  const Schedule schedule = make_schedule(plan);
  const auto costs = [&](bool sharded) {
    AnalyticAssumptions assumptions = exactly();
    assumptions.sharded_optimizer = sharded;
    return cluster_costs(plan, schedule.placement, layout, assumptions);
  };
  const StageCosts whole = costs(false), shared = costs(true);
  for (const StageId stage : ids(whole.stages)) {
    const StageTimes &all = whole.stages[stage], &half = shared.stages[stage];
    EXPECT_GT(all.reduce, Duration{});
    EXPECT_EQ(half.reduce, all.reduce / 2);
    EXPECT_EQ(half.update, all.update / 2 + all.reduce / 2);
    EXPECT_EQ(half.forward, all.forward);
  }
  EXPECT_LT(shared.norm, whole.norm);
}

TEST(ClusterCosts, OverheadsOfACalibrationComeOnTop) {
  const Cluster cluster(two_nodes());
  Plan plan = two_stages();
  plan.request.width = 1;
  const ClusterLayout layout(cluster, 1, 2, DeviceOrder::replicas_first, 2);
  const Schedule schedule = make_schedule(plan);
  const auto costs = [&](const Calibration& overheads) {
    AnalyticAssumptions assumptions = exactly();
    assumptions.tensor = 2;
    assumptions.calibration = overheads;
    return cluster_costs(plan, schedule.placement, layout, assumptions);
  };
  const StageCosts none = costs({});
  const StageTimes& alone = none.stages[StageId{0}];
  EXPECT_EQ(costs({.batch_s = 2.0}).stages[StageId{0}].update, alone.update + seconds(2));
  EXPECT_EQ(costs({.transfer_s = 2.0}).ways[1], none.ways[1] + seconds(2));
  // Of the embedding and of attention, forward, while the device computes for less.
  const StageCosts summed = costs({.sum_s = 2.0});
  EXPECT_LT(alone.forward, seconds(4));
  EXPECT_EQ(summed.stages[StageId{0}].forward, seconds(4));
  EXPECT_EQ(summed.ways, none.ways);
}

TEST(ClusterCosts, AStageIsAsSlowAsItsSlowestReplica) {
  ClusterSpec spec = two_nodes();
  DeviceSpec slow = spec.devices[0];
  slow.name = "slow";
  slow.flops_per_s.fill(1.0);
  spec.devices.push_back(slow);
  spec.groups[0].members[0] = {.name = "gpu", .device = 0};
  spec.groups[0].members.push_back({.name = "old", .device = 1});
  spec.groups[0].joints.push_back(
      {{.member = 3}, {.member = 1}, {.name = "inner", .bytes_per_s = 100, .latency = {}}});
  spec.groups[0].port = 1;
  const Cluster cluster(spec);
  const Plan plan = two_stages();
  const Schedule schedule = make_schedule(plan);
  const auto forward = [&](DeviceOrder order) {
    const ClusterLayout layout(cluster, 2, 2, order);
    const StageCosts costs = cluster_costs(plan, schedule.placement, layout, exactly());
    for (const StageId stage : ids(costs.stages)) {
      Duration layers{};
      for (std::int32_t layer = plan.stages[index(stage)].first;
           layer < plan.stages[index(stage)].last; ++layer)
        layers += costs.layers[static_cast<std::size_t>(layer)].forward;
      EXPECT_EQ(layers, costs.stages[stage].forward) << "on the same replica";
    }
    return std::vector<bool>{costs.stages[StageId{0}].forward > seconds(1000),
                             costs.stages[StageId{1}].forward > seconds(1000)};
  };
  // Each stage has a replica on an old device; or the second stage has both.
  EXPECT_EQ(forward(DeviceOrder::replicas_first), (std::vector<bool>{true, true}));
  EXPECT_EQ(forward(DeviceOrder::stages_first), (std::vector<bool>{false, true}));
  // What was measured was measured on one of them.
  Profile profile;
  profile.model = plan.model;
  for (const LayerKind kind : layers_of(plan.model))
    profile.layers.push_back({.kind = kind, .microbatch_size = plan.microbatch_size});
  AnalyticAssumptions measured = exactly();
  measured.measured = std::make_shared<const TensorProfiles>(TensorProfiles{{1, profile}});
  const auto costs_on = [&](const Cluster& one_of) {
    const ClusterLayout layout(one_of, 2, 2, DeviceOrder::replicas_first);
    return cluster_costs(plan, schedule.placement, layout, measured);
  };
  EXPECT_THROW(costs_on(cluster), InputError);
  EXPECT_NO_THROW(costs_on(Cluster(two_nodes())));
}

}  // namespace
}  // namespace tandem
