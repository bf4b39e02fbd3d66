#include "core/schedule/placement.h"

#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::pair<int, int>> edges_of(const Placement& placement) {
  std::vector<std::pair<int, int>> edges;
  for (const Placement::Edge& edge : placement.edges) {
    edges.emplace_back(static_cast<int>(edge.from), static_cast<int>(edge.to));
  }
  return edges;
}

std::vector<int> devices_of(const Placement& placement) {
  std::vector<int> devices;
  for (const DeviceId device : placement.device) devices.push_back(static_cast<int>(device));
  return devices;
}

std::vector<int> stages_of(const Placement& placement) {
  std::vector<int> stages;
  for (const StageId stage : placement.stage) stages.push_back(static_cast<int>(stage));
  return stages;
}

using Edge = std::pair<int, int>;

TEST(Placement, IsALine) {
  const Placement line = linear_placement(3);
  EXPECT_THAT(devices_of(line), ElementsAre(0, 1, 2));
  EXPECT_THAT(stages_of(line), ElementsAre(0, 1, 2));
  EXPECT_THAT(edges_of(line), ElementsAre(Edge{0, 1}, Edge{1, 2}));
  EXPECT_EQ(line.stages(), 3u);
  EXPECT_THAT(edges_of(linear_placement(1)), IsEmpty());
}

TEST(Placement, WalksDownTheDevicesAndBackUpInAV) {
  const Placement v = v_placement(3);
  EXPECT_THAT(devices_of(v), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_EQ(v.stages(), 6u);
  EXPECT_THAT(edges_of(v), ElementsAre(Edge{0, 1}, Edge{1, 2}, Edge{2, 3}, Edge{3, 4}, Edge{4, 5}));
  EXPECT_THAT(v.replicas_on(DeviceId{1}), ElementsAre(ReplicaId{1}, ReplicaId{4}));
}

TEST(Placement, RunsTwoChainsOverTheSameStages) {
  const Placement both = bidirectional_placement(4);
  EXPECT_THAT(devices_of(both), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0));
  EXPECT_THAT(stages_of(both), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(both.stages(), 4u);
  EXPECT_THAT(both.replicas_of(StageId{1}), ElementsAre(ReplicaId{1}, ReplicaId{5}));
  EXPECT_EQ(both.edges.size(), 6u);
}

TEST(Placement, BeginsEachPairOfDirectionsFurtherRound) {
  const Placement four = bidirectional_placement(4, 4);
  EXPECT_THAT(devices_of(four), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 2, 3, 0, 1, 1, 0, 3, 2));
  for (const DeviceId device : all_ids<DeviceId>(4)) {
    std::set<StageId> stages;
    for (const ReplicaId replica : four.replicas_on(device)) stages.insert(four.stage[replica]);
    EXPECT_EQ(stages.size(), 4u) << "no two copies of a stage on device " << index(device);
  }
}

TEST(Placement, CountsTheChunksOfOneCopy) {
  EXPECT_EQ(chunks_of(bidirectional_placement(4, 4)).rows(), std::vector<std::size_t>(4, 1));
  EXPECT_EQ(chunks_of(v_placement(3)).rows(), std::vector<std::size_t>(3, 2));
  EXPECT_EQ(chunks_of(replicated_placement({2, 1, 1})).rows(), std::vector<std::size_t>(4, 1));
}

TEST(Placement, TiesTheReplicasOfOneCopy) {
  Placement both = bidirectional_placement(4);
  EXPECT_THAT(both.replicas_tied_with(ReplicaId{0}), IsEmpty());
  both.tied = {{StageId{0}, StageId{3}}};
  EXPECT_THAT(both.replicas_tied_with(ReplicaId{3}), ElementsAre(ReplicaId{0}, ReplicaId{3}));
  EXPECT_THAT(both.replicas_tied_with(ReplicaId{4}), ElementsAre(ReplicaId{4}, ReplicaId{7}));
  Placement uneven = replicated_placement({2, 1});
  uneven.tied = {{StageId{0}, StageId{1}}};
  EXPECT_THAT(uneven.replicas_tied_with(ReplicaId{0}), IsEmpty());
}

TEST(Placement, JoinsEachReplicaToEach) {
  const Placement replicated = replicated_placement({2, 1, 2});
  EXPECT_EQ(replicated.devices, 5);
  EXPECT_THAT(stages_of(replicated), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(edges_of(replicated), ElementsAre(Edge{0, 2}, Edge{1, 2}, Edge{2, 3}, Edge{2, 4}));
}

TEST(Placement, KnowsWhatIsTied) {
  Placement line = linear_placement(3);
  EXPECT_THAT(line.tied_with(StageId{0}), IsEmpty());
  line.tied = {{StageId{0}, StageId{2}}};
  EXPECT_THAT(line.tied_with(StageId{2}), ElementsAre(StageId{0}, StageId{2}));
  EXPECT_THAT(line.tied_with(StageId{1}), IsEmpty());
}

TEST(PlacementDeathTest, RefusesAPartWithoutReplicas) {
  EXPECT_DEATH(replicated_placement({1, 0}), "replicas");
}

}  // namespace
}  // namespace tandem
