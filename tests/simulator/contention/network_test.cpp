// What a network must not be, and what its flows take alone.

#include "simulator/contention/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/networks.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// The first transfer's row of flows, over one link.
struct Tried {
  Program program = program_of(pipeline("1f1b", 2, 2));
  CostId transfer = moving_keys(program).front();
  Network network = empty_network(program);
  Tried() {
    add_link(network, 1e9);
    network.flows[transfer] = {{.bytes = 10, .links = {Network::LinkId{0}}}};
  }
  Network::Flow& flow() { return network.flows[transfer].front(); }
  std::string diagnostic() const {
    try {
      check(network, program);
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }
};

TEST(Network, IsAcceptedWhereAllArrives) { EXPECT_EQ(Tried().diagnostic(), "none"); }

TEST(Network, IsRefusedWhereAFlowTakesTooLongWithItsPlace) {
  Tried tried;
  tried.flow().bytes = 1'000'000'000'000;
  tried.network.links[Network::LinkId{0}].bytes_per_second = 1e-9;
  EXPECT_THAT(
      tried.diagnostic(),
      ::testing::HasSubstr("send_activation of stage 0, device 0 to 1: 1000000000000 bytes at "
                           "1e-09 bytes per second take longer than 30 years"));
}

TEST(Network, PricesFlowsAsIfTheyWereAlone) {
  Tried tried;
  const Network::LinkId slow = add_link(tried.network, 4e8);
  tried.network.flows[tried.transfer] = {
      {.bytes = 100, .latency = Duration(5), .links = {Network::LinkId{0}, slow}},
      {.bytes = 100, .links = {slow, slow}},
      {.bytes = 100, .links = {slow}, .bytes_per_second = 1e8}};
  const CostTable costs = plain_costs(tried.program, {.forward = 3, .transfer = 77});
  const CostTable alone = unshared_costs(tried.network, costs);
  EXPECT_EQ(alone[tried.transfer].count(), 5 + 250 + 500 + 1000);
  for (const CostId key : ids(costs)) {
    if (key == tried.transfer) continue;
    EXPECT_EQ(alone[key], costs[key]);
  }
}

}  // namespace
}  // namespace tandem::testing
