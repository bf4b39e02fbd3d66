// What is shared and what is not, and so what has to be followed through time.

#include "simulator/contention/contended_program.h"

#include <gtest/gtest.h>

#include "tests/support/networks.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

CostTable costs_of(const Program& program) {
  return plain_costs(program, {.forward = 1000, .backward = 2000, .transfer = 100});
}

TEST(ContendedProgram, FollowsNothingOverLinksThatOneLaneHas) {
  const Program program = program_of(pipeline("1f1b", 4, 4));
  const CostTable costs = costs_of(program);
  const ContendedProgram compiled(program, costs, private_links(program, costs));
  EXPECT_TRUE(compiled.is_plain());
  EXPECT_TRUE(compiled.groups().empty());
  for (const CostId key : ids(costs)) {
    EXPECT_EQ(compiled.kind(key).time, costs[key].count() * kTicks);
  }
}

TEST(ContendedProgram, SharesALinkBetweenTransfersThatHoldNoLane) {
  // Without lanes two transfers of one key may be under way at once.
  const Program program = program_of(pipeline("1f1b", 4, 4), TransferLanes::ideal);
  const CostTable costs = costs_of(program);
  const ContendedProgram compiled(program, costs, private_links(program, costs));
  EXPECT_EQ(compiled.groups().size(), moving_keys(program).size());
}

TEST(ContendedProgram, IsOneGroupOverOneBackbone) {
  const Program program = program_of(pipeline("1f1b", 4, 4));
  const CostTable costs = costs_of(program);
  const ContendedProgram narrow(program, costs, backbone(program, costs, 1e8)),
      wide(program, costs, backbone(program, costs, 1e10));
  ASSERT_EQ(narrow.groups().size(), 1U);
  EXPECT_EQ(narrow.groups()[0].cap, Network::kNoCap) << "the backbone is narrower than the limit";
  ASSERT_EQ(wide.groups().size(), 1U);
  EXPECT_EQ(wide.groups()[0].cap, 1e9);
  EXPECT_FALSE(wide.is_plain());
}

TEST(ContendedProgram, LimitsARateByLinksOfItsOwn) {
  const Program program = program_of(pipeline("gpipe", 3, 2));
  const CostTable costs = costs_of(program);
  Network network = empty_network(program);
  const Network::LinkId shared = add_link(network, 8e8);
  double own = 1e8;
  for (const CostId key : moving_keys(program)) {
    network.flows[key] = {{.bytes = 100, .links = {shared, add_link(network, own)}}};
    own *= 2;
  }
  const ContendedProgram compiled(program, costs, network);
  std::vector<double> caps;
  for (const FlowGroup& group : compiled.groups()) caps.push_back(group.cap);
  EXPECT_EQ(caps, (std::vector<double>{1e8, 2e8, 4e8, Network::kNoCap}));
  EXPECT_EQ(compiled.capacities(), std::vector<double>{8e8});
}

TEST(ContendedProgram, FollowsMovesOfDevicesWhoseComputeTheySlow) {
  const Program program = program_of(pipeline("gpipe", 3, 2));
  Network network;
  network.compute_slowdown = {1.0, 1.0, 1.2};
  const ContendedProgram compiled(program, costs_of(program), network);
  for (const CostId id : ids(program.cost_keys())) {
    const CostKey& key = program.cost_keys()[id];
    const bool of_last = key.source == DeviceId{2} || key.target == DeviceId{2};
    EXPECT_EQ(compiled.kind(id).followed, of_last) << name(key.kind);
  }
}

}  // namespace
}  // namespace tandem::testing
