// Closed forms of the algorithms and of the choice between them.

#include "simulator/cost/collective_model.h"

#include <chrono>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

/// Rates of 100 and 10 bytes a second, steps of 3 s.
CollectiveConstants slow() {
  return {.launch_s = 1.0,
          .node_hop_s = 3.0,
          .simple_s = 7.0,
          .low_latency_bytes_per_s = 1e-9,  // never chosen
          .within_node_bytes_per_s = 100.0,
          .between_nodes_bytes_per_s = 10.0};
}

AlgorithmCost cost(CollectiveAlgorithm algorithm, const CollectiveGroup& group) {
  return algorithm_cost(algorithm, ways_of(slow(), group), group, 1000.0);
}

void expect(const AlgorithmCost& found, std::int64_t hops, double moving) {
  EXPECT_EQ(found.node_hops, hops);
  EXPECT_DOUBLE_EQ(found.moving_s, moving);
}

TEST(CollectiveModel, ARingSendsAllButAShareTwice) {
  const auto ring = [](CollectiveGroup group) { return cost(CollectiveAlgorithm::ring, group); };
  expect(ring({.devices = 4, .nodes = 1, .least_per_node = 4}), 0, 1.5 * 1000 / 100);
  // Eight in two nodes: four ways out of 10 bytes/s each.
  expect(ring({.devices = 8, .nodes = 2, .least_per_node = 4}), 2, 1.75 * 1000 / 40);
  // With enough ways out those within are the slowest.
  expect(ring({.devices = 32, .nodes = 2, .least_per_node = 16}), 2, 2 * 31.0 / 32 * 1000 / 100);
  // One in each node: 2 (n - 1) steps.
  expect(ring({.devices = 4, .nodes = 4, .least_per_node = 1}), 6, 1.5 * 1000 / 10);
}

TEST(CollectiveModel, ATreeIsAsDeepAsItsNodesNeed) {
  const auto tree = [](std::int64_t nodes) {
    return cost(CollectiveAlgorithm::tree,
                {.devices = 4 * nodes, .nodes = nodes, .least_per_node = 4});
  };
  expect(tree(2), 2, 2.0 * 1000 / 40);
  expect(tree(3), 4, 2.0 * 1000 / 40);
  expect(tree(4), 4, 2.0 * 1000 / 40);
  expect(tree(16), 8, 2.0 * 1000 / 40);
  expect(tree(17), 10, 2.0 * 1000 / 40);
}

TEST(CollectiveModel, AHierarchyScattersWithinAndSumsAcross) {
  expect(cost(CollectiveAlgorithm::hierarchical, {.devices = 8, .nodes = 2, .least_per_node = 4}),
         2, 1.5 * 1000 / 100 + 1000.0 / 40);
  expect(cost(CollectiveAlgorithm::hierarchical, {.devices = 4, .nodes = 1, .least_per_node = 4}),
         0, 1.5 * 1000 / 100);
}

TEST(CollectiveModel, TheFastestAlgorithmIsTaken) {
  const CollectiveGroup two{.devices = 8, .nodes = 2, .least_per_node = 4};
  // By the full-rate protocol: the hierarchy's 40 s, not the ring's 43.75 s.
  EXPECT_NEAR(all_reduce_seconds(slow(), two, 1000.0), 1 + 2 * 3 + 7 + 40, 1e-3);
  // Ways out as fast as those within: the ring's 17.5 s, not the tree's 20 s.
  CollectiveConstants wide = slow();
  wide.between_nodes_bytes_per_s = 25.0;
  EXPECT_NEAR(all_reduce_seconds(wide, two, 1000.0), 1 + 2 * 3 + 7 + 17.5, 1e-3);
  // Nothing to move: the tree's depth over 16 nodes, not 30 hops.
  const CollectiveGroup many{.devices = 64, .nodes = 16, .least_per_node = 4};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(slow(), many, 0.0), 1 + 8 * 3);
}

TEST(CollectiveModel, ProtocolsTakeOverFromOneAnother) {
  const CollectiveGroup four{.devices = 4, .nodes = 1, .least_per_node = 4};
  CollectiveConstants constants = slow();
  // 22 s by both: half of it.
  constants.low_latency_bytes_per_s = 1000.0 / 22.0;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(constants, four, 1000.0), 1 + 11.0);
  // The low-latency one costs nothing for nothing, and is never slower than alone.
  EXPECT_DOUBLE_EQ(all_reduce_seconds(constants, four, 0.0), 1.0);
  constants.low_latency_bytes_per_s = 1e15;
  EXPECT_NEAR(all_reduce_seconds(constants, four, 1000.0), 1.0, 1e-9);
  double before = 0.0;
  for (double bytes = 1.0; bytes < 1e9; bytes *= 2) {
    const double time = all_reduce_seconds(slow(), four, bytes);
    EXPECT_GT(time, before);
    before = time;
  }
}

TEST(CollectiveModel, AThreadLaunchesOneKernelAfterTheOther) {
  CollectiveGroup group{.devices = 8, .nodes = 1, .least_per_node = 8, .per_thread = 8};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(slow(), group, 0.0), 8.0);
  group.per_thread = 1;
  EXPECT_DOUBLE_EQ(all_reduce_seconds(slow(), group, 0.0), 1.0);
}

TEST(CollectiveModel, OneDeviceHasNothingToSum) {
  EXPECT_EQ(all_reduce_time(slow(), {}, 1000), Duration{});
}

TEST(CollectiveModel, WhatWouldTakeDaysIsRefused) {
  const CollectiveGroup four{.devices = 4, .nodes = 1, .least_per_node = 4};
  EXPECT_THROW(all_reduce_time(slow(), four, 10'000'000), InputError);
  EXPECT_EQ(all_reduce_time(slow(), four, 0), std::chrono::seconds(1));
}

TEST(CollectiveModel, StepsWithinNodesTakeTheirLatencyUnlessAProtocolHidesIt) {
  const CollectiveGroup eight{.devices = 8, .nodes = 2, .least_per_node = 4};
  CollectiveWays ways{.within = {.bytes_per_s = 1e12, .latency_s = 1.0},
                      .between = {.bytes_per_s = 1e12, .latency_s = 100.0}};
  // Tree: up and down one level of nodes and a chain of four in each; a ring has twelve steps.
  EXPECT_NEAR(all_reduce_seconds(ways, eight, 1.0), 200 + 6, 1e-6);
  ways.protocol_s = 7.0;
  EXPECT_NEAR(all_reduce_seconds(ways, eight, 1.0), 200 + 7, 1e-6);
}

}  // namespace
}  // namespace tandem
