// A model on a cluster: cuts, memory, and the shape that is chosen.

#include "planner/cluster/cluster_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "planner/cluster/cluster_setup.h"
#include "planner/search/batch_work.h"
#include "simulator/cost/analytic_slices.h"
#include "tests/support/all_slicings.h"
#include "tests/support/device_ids.h"

namespace tandem {
namespace {

using testing::d;

Plan plan_of(const std::string& model, const std::string& schedule, std::uint16_t width,
             std::uint16_t depth, std::int32_t microbatch_size, std::int32_t microbatches) {
  Plan plan;
  plan.model = find_model(model)->model;
  plan.schedule = schedule;
  plan.request.width = width;
  plan.request.devices = depth;
  plan.microbatch_size = microbatch_size;
  plan.request.microbatches = microbatches;
  return plan;
}

ClusterPlan make(const Plan& plan, const Cluster& cluster,
                 DeviceOrder order = DeviceOrder::replicas_first) {
  return plan_on_cluster(
      plan, ClusterLayout(cluster, plan.request.width, plan.request.devices, order), {});
}

std::shared_ptr<const Cluster> shared(const ClusterSpec& spec) {
  return std::make_shared<const Cluster>(spec);
}

/// The most that any stage computes in a batch.
Duration busiest(const ClusterPlan& made, const Cluster& cluster,
                 const std::vector<LayerRange>& stages) {
  const BatchWork work(made.schedule);
  const ClusterLayers layers(
      made.plan, ClusterLayout(cluster, made.plan.request.width, made.plan.request.devices, {}),
      {});
  Duration most{};
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    most = std::max(most, work.of(id_at<ReplicaId>(stage), layers.of(d(stage), stages[stage])));
  }
  return most;
}

TEST(ClusterPlan, NoOtherCutHasALessBusyStage) {
  const Cluster cluster(cluster_of_nodes("p3dn.24xlarge"));
  const ClusterPlan made = make(plan_of("gpt2-large", "1f1b", 2, 3, 1, 8), cluster);
  const auto layers = static_cast<std::int32_t>(layers_of(made.plan.model).size());
  const Duration best = busiest(made, cluster, made.plan.stages);
  for (std::int32_t a = 1; a < layers - 1; ++a) {
    for (std::int32_t b = a + 1; b < layers; ++b) {
      ASSERT_GE(busiest(made, cluster, {{0, a}, {a, b}, {b, layers}}), best) << a << " " << b;
    }
  }
}

TEST(ClusterPlan, NoOtherCutOfWholeBlocksHasALessBusyStage) {
  const Cluster cluster(cluster_of_nodes("p3dn.24xlarge"));
  const Plan plan = plan_of("gpt2-large", "1f1b", 1, 3, 1, 8);
  const ClusterPlan made =
      plan_on_cluster(plan, ClusterLayout(cluster, 1, 3, {}), {}, StageCut::blocks);
  const auto layers = static_cast<std::int32_t>(layers_of(made.plan.model).size());
  const Duration best = busiest(made, cluster, made.plan.stages);
  const auto between_blocks = [&](std::int32_t at) { return at % 2 == 1 || at == layers; };
  for (const LayerRange stage : made.plan.stages) EXPECT_TRUE(between_blocks(stage.last));
  for (std::int32_t a = 1; a < layers - 1; a += 2) {
    for (std::int32_t b = a + 2; b < layers; b += 2) {
      ASSERT_GE(busiest(made, cluster, {{0, a}, {a, b}, {b, layers}}), best) << a << " " << b;
    }
  }
  Plan shallow = plan_of("gpt2", "1f1b", 1, 8, 1, 8);
  shallow.model.blocks = 4;
  EXPECT_THROW(plan_on_cluster(shallow, ClusterLayout(cluster, 1, 8, {}), {}, StageCut::blocks),
               InputError);
}

// Controls: without transfers, or without what stands before a slice, others are found.
TEST(ClusterPlan, SlicesByTimeAreTheFastestOfAll) {
  ClusterSpec spec = cluster_of_nodes("p3dn.24xlarge");
  spec.devices[0].memory_bytes_per_s = 1e18;
  spec.devices[0].flops_per_s.fill(1e10);
  spec.devices[0].multiprocessors = 0;  // products of any shape reach their rate
  const Cluster cluster(spec);
  Plan plan = plan_of("gpt2", "terapipe", 1, 4, 1, 2);
  plan.model = {.blocks = 4, .width = 16, .heads = 2, .sequence = 96, .vocabulary = 64};
  plan.request.slices = {Slicing::Kind::by_time, 0};
  const ClusterLayout layout(cluster, 1, 4, {});
  AnalyticAssumptions assumptions;
  assumptions.calibration = Calibration{.transfer_s = 10e-6};
  const ClusterPlan made = plan_on_cluster(plan, layout, assumptions);
  std::map<std::pair<std::int32_t, std::int32_t>, Duration> known;
  const SliceTime time =
      [&, asked = analytic_slice_time(plan, layout, assumptions, 4)](SequencePart part) {
        const auto [at, is_new] = known.try_emplace({part.tokens, part.before});
        if (is_new) at->second = asked(part);
        return at->second;
      };
  const std::int64_t least = testing::least_slicing_value(96, 8, 4, 2, time);
  const auto value = [&](const std::vector<std::int32_t>& lengths) {
    return testing::slicing_value(lengths, 4, 2, time);
  };
  EXPECT_GT(made.plan.request.slices.count, 1);
  EXPECT_EQ(value(made.plan.request.slices.lengths), least);
  const ClusterLayout alone(cluster, 1, 1, {});
  EXPECT_GT(
      value(fastest_slices(96, 8, 4, 2, analytic_slice_time(plan, alone, assumptions, 4)).lengths),
      least);
  EXPECT_GT(
      value(fastest_slices(96, 8, 4, 2, [&](SequencePart part) { return time({part.tokens, 0}); })
                .lengths),
      least);
}

TEST(ClusterPlan, AnEvenCutHasAsManyBlocksInEachStage) {
  const Cluster cluster(cluster_of_nodes("p3dn.24xlarge"));
  const auto cut = [&](std::uint16_t depth, StageCut kind) {
    const Plan plan = plan_of("gpt2-large", "1f1b", 1, depth, 1, 8);  // 36 blocks
    return plan_on_cluster(plan, ClusterLayout(cluster, 1, depth, {}), {}, kind);
  };
  const ClusterPlan even = cut(4, StageCut::even), balanced = cut(4, StageCut::balanced);
  EXPECT_EQ(even.plan.stages, (std::vector<LayerRange>{{0, 19}, {19, 37}, {37, 55}, {55, 74}}));
  EXPECT_NE(balanced.plan.stages, even.plan.stages);
  EXPECT_GT(busiest(even, cluster, even.plan.stages),
            busiest(balanced, cluster, balanced.plan.stages));
  Plan shallow = plan_of("gpt2", "1f1b", 1, 8, 1, 8);
  shallow.model.blocks = 7;
  const ClusterLayout layout(cluster, 1, 8, {});
  EXPECT_TRUE(plan_on_cluster(shallow, layout, {}).fits());
  try {
    plan_on_cluster(shallow, layout, {}, StageCut::even);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              "an even cut into 8 stages needs as many blocks: gpt2 has 7");
  }
}

TEST(ClusterPlan, TheShapeIsChosenAsItsTransfersAre) {
  ClusterRequest request{.plan = plan_of("gpt2-large", "1f1b", 1, 1, 1, 8),
                         .cluster = shared(cluster_of_nodes("2xp3.16xlarge")),
                         .global_batch = 64};
  const auto rates = [&] {
    std::vector<double> of_width(17);
    for (const TriedShape& one : set_up_on_cluster(request).tried)
      of_width[one.width] = one.samples_per_s;
    return of_width;
  };
  const std::vector<double> overlapped = rates();
  request.blocking_transfers = true;
  const std::vector<double> blocking = rates();
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    EXPECT_GT(blocking[width], 0.0) << width;
    EXPECT_LT(blocking[width], overlapped[width]) << width;
  }
}

TEST(ClusterPlan, MemoryOf2bwIsThatOfThePaper) {
  // 2 |W| / d + d · |A| / d on the first of d stages (arXiv 2006.09503, section 4), with the bytes
  // of gradients and optimizer that the paper leaves out.
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const ClusterPlan made = make(plan_of("gpt-2.2b", "2bw", 1, 8, 1, 8), cluster);
  const StageBytes& stage = made.bytes[ReplicaId{0}];
  const MemoryByClass& first = made.memory[d(0)];
  EXPECT_EQ(first.weights + first.versions, 2 * stage[SlotKind::weights]);
  EXPECT_EQ(static_cast<double>(first.activations), 8 * stage.framework.all);
  EXPECT_EQ(static_cast<double>(made.memory[d(7)].activations),
            made.bytes[ReplicaId{7}].framework.all);
  // Flush has one version, and as many activations.
  const ClusterPlan flush = make(plan_of("gpt-2.2b", "1f1b", 1, 8, 1, 8), cluster);
  EXPECT_EQ(flush.memory[d(0)].versions, 0);
  EXPECT_EQ(flush.memory[d(0)].activations, first.activations);
  EXPECT_EQ(made.capacity[d(0)], Bytes{16} << 30);
}

/// Outputs are gone in a framework where slots keep them, so more fits, and all agree on what.
TEST(ClusterPlan, WhatFitsIsJudgedByTheFigureThatIsAskedFor) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const Plan plan = plan_of("gpt2-xl", "zb-h2", 1, 4, 2, 8);
  const ClusterLayout layout(cluster, 1, 4, {});
  AnalyticAssumptions assumptions;
  const ClusterPlan framework = plan_on_cluster(plan, layout, assumptions, StageCut::even);
  assumptions.fits_by = FitsBy::tandem;
  const ClusterPlan tandem = plan_on_cluster(plan, layout, assumptions, StageCut::even);
  EXPECT_EQ(framework.figures.framework, tandem.figures.framework);
  EXPECT_EQ(framework.figures.tandem, tandem.figures.tandem);
  for (const DeviceId device : ids(framework.memory)) {
    EXPECT_EQ(framework.memory[device].total(), framework.figures.framework[device]);
    EXPECT_EQ(tandem.memory[device].total(), framework.figures.tandem[device]);
  }
  // A capacity between both: one figure fits in it, whatever is asked for.
  const auto most = [](const Table<DeviceId, Bytes>& bytes) {
    return *std::max_element(bytes.begin(), bytes.end());
  };
  const Bytes least = most(framework.figures.framework);
  ASSERT_LT(least, most(framework.figures.tandem));
  ClusterSpec spec = cluster_of_nodes("p3.16xlarge");
  for (DeviceSpec& device : spec.devices) device.memory_bytes = least;
  const auto fits = [&](FitsBy by, StageCut cut) {
    const Cluster narrow(spec);
    assumptions.fits_by = by;
    return memory_on_cluster(plan, ClusterLayout(narrow, 1, 4, {}), assumptions, cut).fits();
  };
  EXPECT_TRUE(fits(FitsBy::framework, StageCut::even));
  EXPECT_FALSE(fits(FitsBy::tandem, StageCut::even));
  // The cut looks for stages that fit by the same figure.
  EXPECT_TRUE(fits(FitsBy::framework, StageCut::balanced));
}

TEST(ClusterPlan, AShardedOptimizerTakesLessMemoryTheWiderThePlan) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const auto made = [&](std::uint16_t width, const std::string& schedule, bool sharded) {
    AnalyticAssumptions assumptions;
    assumptions.sharded_optimizer = sharded;
    const Plan plan = plan_of("gpt2-large", schedule, width, 2, 1, 8);
    return plan_on_cluster(plan, ClusterLayout(cluster, width, 2, {}), assumptions);
  };
  const MemoryByClass whole = made(4, "2bw", false).memory[d(0)];
  const MemoryByClass quarter = made(4, "2bw", true).memory[d(0)];
  EXPECT_NEAR(static_cast<double>(whole.optimizer) / static_cast<double>(quarter.optimizer), 4.0,
              1e-6);
  EXPECT_EQ(quarter.weights + quarter.versions, whole.weights + whole.versions);
  EXPECT_EQ(quarter.activations, whole.activations);
  EXPECT_EQ(made(1, "2bw", true).memory[d(0)].optimizer, whole.optimizer);
  EXPECT_THROW(made(4, "chimera", true), InputError);
}

TEST(ClusterPlan, OnlyTheStagesThemselvesNeedBytesThatCanBeCounted) {
  // More than 2^42 bytes of activations in the whole model, less in each half of it.
  ClusterSpec spec = cluster_of_nodes("p3.16xlarge");
  spec.devices.front().memory_bytes = Bytes{1} << 46;
  const Cluster cluster(spec);
  const Plan plan = plan_of("gpt2-xl", "1f1b", 1, 2, 700, 8);
  const ClusterPlan made = make(plan, cluster);
  EXPECT_TRUE(made.fits());
  EXPECT_GT(made.bytes[ReplicaId{0}][SlotKind::stash] + made.bytes[ReplicaId{1}][SlotKind::stash],
            Bytes{1} << 42);
  EXPECT_THROW(make(plan_of("gpt2-xl", "1f1b", 1, 1, 700, 8), cluster), InputError);
}

TEST(ClusterPlan, OfTheCutsThatFitOneIsTaken) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const Plan plan = plan_of("gpt2-xl", "1f1b", 1, 8, 1, 8);
  const ClusterPlan whole = make(plan, cluster);
  Bytes most = 0, total = 0;
  for (const MemoryByClass& of : whole.memory) {
    most = std::max(most, of.total());
    total += of.total();
  }
  // As little as the fullest stage needs less one byte: another cut does, a slower one.
  ClusterSpec spec = cluster_of_nodes("p3.16xlarge");
  spec.devices[0].memory_bytes = most - 1;
  const Cluster tight(spec);
  const ClusterPlan other = make(plan, tight);
  EXPECT_TRUE(other.fits());
  EXPECT_NE(other.plan.stages, whole.plan.stages);
  EXPECT_GE(busiest(other, tight, other.plan.stages), busiest(whole, cluster, whole.plan.stages));
  // No cut at all: the fastest, which says that it does not fit.
  spec.devices[0].memory_bytes = total / 16;
  const ClusterPlan none = make(plan, Cluster(spec));
  EXPECT_FALSE(none.fits());
  EXPECT_EQ(none.plan.stages, whole.plan.stages);
}

TEST(ClusterPlan, AFasterDeviceGetsMoreLayers) {
  ClusterSpec spec = cluster_of_nodes("p3.16xlarge");
  spec.devices[0].typical = {};  // else its host takes as long for either
  DeviceSpec fast = spec.devices[0];
  fast.name = "fast";
  for (double& flops : fast.flops_per_s) flops *= 3;
  fast.memory_bytes_per_s *= 3;
  spec.devices.push_back(fast);
  spec.groups[0].members[0].count = 1;
  spec.groups[0].members.push_back({.name = "fast", .device = 1});
  const LinkSpec link{.name = "link", .bytes_per_s = 1e10, .latency = {}};
  spec.groups[0].joints = {{{.member = 0}, {.member = 1}, link},
                           {{.member = 2}, {.member = 1}, link}};
  const Cluster cluster(spec);
  const ClusterPlan made = make(plan_of("gpt2", "1f1b", 1, 2, 1, 4), cluster);
  EXPECT_GT(made.plan.stages[1].size(), 2 * made.plan.stages[0].size());
}

TEST(ClusterPlan, AutomaticSchedulesAreOrderedByTheseCosts) {
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const ClusterPlan made = make(plan_of("gpt2", "zb-auto", 1, 4, 1, 8), cluster);
  ASSERT_TRUE(made.plan.request.costs.has_value());
  EXPECT_EQ(made.plan.request.costs->stages[StageId{0}].forward,
            made.costs.stages[StageId{0}].forward);
}

TEST(ChooseShape, TakesTheFastestThatFits) {
  ClusterRequest request{.plan = plan_of("gpt2-medium", "2bw", 1, 1, 1, 1),
                         .cluster = shared(cluster_of_nodes("p3.16xlarge")),
                         .global_batch = 32};
  const ClusterSetup chosen = set_up_on_cluster(request);
  ASSERT_EQ(chosen.tried.size(), 3u);  // widths 1, 2, 4: a pipeline is asked for
  EXPECT_TRUE(chosen.tried[0].fits);
  EXPECT_EQ(chosen.made.plan.request.width, chosen.tried[0].width);
  for (const TriedShape& one : chosen.tried) {
    EXPECT_EQ(one.width * one.depth, 8);
    if (one.fits) {
      EXPECT_LE(one.samples_per_s, chosen.tried[0].samples_per_s);
    }
  }
  request.width = 2;
  EXPECT_EQ(set_up_on_cluster(request).made.plan.request.devices, 4);
}

TEST(ChooseShape, WhereNoneFitsTakesTheNearest) {
  ClusterSpec spec = cluster_of_nodes("p3.16xlarge");
  spec.devices[0].memory_bytes = 1;
  const Cluster cluster(spec);
  const ClusterSetup chosen =
      set_up_on_cluster({.plan = plan_of("gpt2-medium", "2bw", 1, 1, 1, 1),
                         .cluster = std::make_shared<const Cluster>(cluster),
                         .global_batch = 32});
  const auto most = [](const ClusterPlan& plan) {
    Bytes bytes = 0;
    for (const MemoryByClass& of : plan.memory) bytes = std::max(bytes, of.total());
    return bytes;
  };
  EXPECT_FALSE(chosen.tried[0].fits);
  for (const TriedShape& one : chosen.tried) {
    Plan plan = plan_of("gpt2-medium", "2bw", one.width, one.depth, 1, 32 / one.width);
    EXPECT_GE(most(make(plan, cluster)), most(chosen.made));
  }
}

TEST(ChooseShape, SaysWhyThereIsNone) {
  const auto error = [&](ClusterRequest request) -> std::string {
    request.cluster = shared(cluster_of_nodes("p3.16xlarge"));
    try {
      set_up_on_cluster(request);
    } catch (const InputError& thrown) {
      return thrown.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error({.plan = plan_of("gpt2", "2bw", 1, 1, 4, 1), .global_batch = 6}),
            "a batch of 6 is not 1 to 65535 times 4 pipelines of microbatches of 4");
  EXPECT_EQ(error({.plan = plan_of("gpt2", "2bw", 1, 1, 1, 1), .width = 3, .global_batch = 8}),
            "a batch of 8 is not 1 to 65535 times 3 pipelines of microbatches of 1");
  Plan small = plan_of("gpt2", "1f1b", 1, 1, 1, 8);
  small.model.blocks = 1;
  EXPECT_EQ(error({.plan = small, .width = 1}),
            "schedule 1f1b cuts the model into 8 stages, but gpt2 has 4 layers");
}

}  // namespace
}  // namespace tandem
