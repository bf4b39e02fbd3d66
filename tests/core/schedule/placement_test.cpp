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

std::vector<int> parts_of(const Placement& placement) {
  std::vector<int> parts;
  for (const PartId part : placement.part) parts.push_back(static_cast<int>(part));
  return parts;
}

using Edge = std::pair<int, int>;

TEST(Placement, IsALine) {
  const Placement line = linear_placement(3);
  EXPECT_THAT(devices_of(line), ElementsAre(0, 1, 2));
  EXPECT_THAT(parts_of(line), ElementsAre(0, 1, 2));
  EXPECT_THAT(edges_of(line), ElementsAre(Edge{0, 1}, Edge{1, 2}));
  EXPECT_EQ(line.parts(), 3u);
  EXPECT_THAT(edges_of(linear_placement(1)), IsEmpty());
}

TEST(Placement, WalksDownTheDevicesAndBackUpInAV) {
  const Placement v = v_placement(3);
  EXPECT_THAT(devices_of(v), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_EQ(v.parts(), 6u);
  EXPECT_THAT(edges_of(v), ElementsAre(Edge{0, 1}, Edge{1, 2}, Edge{2, 3}, Edge{3, 4}, Edge{4, 5}));
  EXPECT_THAT(v.stages_on(DeviceId{1}), ElementsAre(StageId{1}, StageId{4}));
}

TEST(Placement, RunsTwoChainsOverTheSameParts) {
  const Placement both = bidirectional_placement(4);
  EXPECT_THAT(devices_of(both), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0));
  EXPECT_THAT(parts_of(both), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(both.parts(), 4u);
  EXPECT_THAT(both.replicas_of(PartId{1}), ElementsAre(StageId{1}, StageId{5}));
  EXPECT_EQ(both.edges.size(), 6u);
}

TEST(Placement, BeginsEachPairOfDirectionsFurtherRound) {
  const Placement four = bidirectional_placement(4, 4);
  EXPECT_THAT(devices_of(four), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 2, 3, 0, 1, 1, 0, 3, 2));
  for (const DeviceId device : all_ids<DeviceId>(4)) {
    std::set<PartId> parts;
    for (const StageId stage : four.stages_on(device)) parts.insert(four.part[stage]);
    EXPECT_EQ(parts.size(), 4u) << "no two copies of a part on device " << index(device);
  }
}

TEST(Placement, CountsTheChunksOfOneCopy) {
  EXPECT_EQ(chunks_of(bidirectional_placement(4, 4)).rows(), std::vector<std::size_t>(4, 1));
  EXPECT_EQ(chunks_of(v_placement(3)).rows(), std::vector<std::size_t>(3, 2));
  EXPECT_EQ(chunks_of(replicated_placement({2, 1, 1})).rows(), std::vector<std::size_t>(4, 1));
}

TEST(Placement, TiesTheStagesOfOneCopy) {
  Placement both = bidirectional_placement(4);
  EXPECT_THAT(both.stages_tied_with(StageId{0}), IsEmpty());
  both.tied = {{PartId{0}, PartId{3}}};
  EXPECT_THAT(both.stages_tied_with(StageId{3}), ElementsAre(StageId{0}, StageId{3}));
  EXPECT_THAT(both.stages_tied_with(StageId{4}), ElementsAre(StageId{4}, StageId{7}));
  Placement uneven = replicated_placement({2, 1});
  uneven.tied = {{PartId{0}, PartId{1}}};
  EXPECT_THAT(uneven.stages_tied_with(StageId{0}), IsEmpty());
}

TEST(Placement, JoinsEachReplicaToEach) {
  const Placement replicated = replicated_placement({2, 1, 2});
  EXPECT_EQ(replicated.devices, 5);
  EXPECT_THAT(parts_of(replicated), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(edges_of(replicated), ElementsAre(Edge{0, 2}, Edge{1, 2}, Edge{2, 3}, Edge{2, 4}));
}

TEST(Placement, KnowsWhatIsTied) {
  Placement line = linear_placement(3);
  EXPECT_THAT(line.tied_with(PartId{0}), IsEmpty());
  line.tied = {{PartId{0}, PartId{2}}};
  EXPECT_THAT(line.tied_with(PartId{2}), ElementsAre(PartId{0}, PartId{2}));
  EXPECT_THAT(line.tied_with(PartId{1}), IsEmpty());
}

TEST(PlacementDeathTest, RefusesAPartWithoutReplicas) {
  EXPECT_DEATH(replicated_placement({1, 0}), "replicas");
}

}  // namespace
}  // namespace tandem
