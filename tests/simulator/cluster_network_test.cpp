// What shares nothing takes on a cluster what it is priced; what shares a link takes longer.

#include "simulator/cost/cluster_network.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/model/catalog.h"
#include "simulator/contention/contended.h"
#include "simulator/simulate.h"

namespace tandem {
namespace {

Plan plan_of(std::uint16_t width, std::uint16_t depth) {
  Plan plan;
  plan.model = {
      .blocks = 4, .width = 1024, .heads = 4, .sequence = 32, .vocabulary = 64, .tied = false};
  plan.schedule = "1f1b";
  plan.request.width = width;
  plan.request.devices = depth;
  plan.request.microbatches = 8;
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  for (std::int32_t stage = 0; stage < depth; ++stage)
    plan.stages.push_back({stage * layers / depth, (stage + 1) * layers / depth});
  return plan;
}

struct Case {
  Cluster cluster;
  Plan plan;
  ClusterLayout layout;
  Program program;
  CostTable prices;
  Network network;

  Case(const char* name, Plan planned, DeviceOrder order, std::int32_t tensor = 1)
      : cluster(cluster_of_nodes(name)),
        plan(std::move(planned)),
        layout(cluster, plan.request.width, plan.request.devices, order,
               static_cast<std::size_t>(tensor)),
        program(lower(make_schedule(plan))) {
    const AnalyticAssumptions assumptions{.tensor = tensor, .calibration = Calibration{}};
    prices = price(program, cost_model(program.placement(), cluster_costs(plan, program.placement(),
                                                                          layout, assumptions)));
    network = cluster_network(program, plan, layout, assumptions);
  }
  SimulationResult alone() const { return simulate(program, prices, {.batches = 3}); }
  SimulationResult shared() const {
    return simulate_contended(program, prices, network, {.batches = 3});
  }
};

TEST(ClusterNetwork, WhatSharesNothingTakesWhatItIsPriced) {
  // One pipeline of two devices: one link each way.
  const Case one("p3.16xlarge", plan_of(1, 2), DeviceOrder::replicas_first);
  EXPECT_EQ(one.shared().makespan, one.alone().makespan);
  EXPECT_EQ(one.shared().cycle, one.alone().cycle);
}

TEST(ClusterNetwork, ReplicasShareWhatThePricesSayTheyDo) {
  for (const std::int32_t tensor : {1, 2}) {
    const Case two("2xp3.16xlarge", plan_of(4, 2), DeviceOrder::replicas_first, tensor);
    const CostTable unshared = unshared_costs(two.network, two.prices);
    for (const CostId id : ids(two.prices)) {
      const CostKey& key = two.program.cost_keys()[id];
      const auto wanted = static_cast<double>(two.prices[id].count());
      EXPECT_NEAR(static_cast<double>(unshared[id].count()), wanted, 2 + 1e-3 * wanted)
          << name(key.kind) << " " << tensor;
    }
  }
}

TEST(ClusterNetwork, StagesThatSumAtOnceShareTheWayOut) {
  // Two pipelines, each in a node: the sums of all eight stages leave by one link.
  const Case eight("2xp3.16xlarge", plan_of(2, 8), DeviceOrder::stages_first);
  const CostTable unshared = unshared_costs(eight.network, eight.prices);
  for (const CostId id : ids(eight.prices)) {
    // Prices take all of them to be under way, flows what each takes alone.
    if (eight.program.cost_keys()[id].kind == OpKind::reduce_gradient) {
      EXPECT_GT(eight.prices[id], 4 * unshared[id]);
    }
  }
  const SimulationResult alone = simulate(eight.program, unshared, {.batches = 3});
  EXPECT_GT(eight.shared().makespan, alone.makespan);
  EXPECT_LE(eight.shared().makespan, eight.alone().makespan);
}

}  // namespace
}  // namespace tandem
