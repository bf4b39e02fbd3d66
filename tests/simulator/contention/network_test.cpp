// What a network must not be, each with the place and the reason.

#include "simulator/contention/network.h"

#include <functional>
#include <limits>

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

struct Wrong {
  std::function<void(Tried&)> change;
  std::string diagnostic;
};

TEST(Network, IsRefusedWithPlaceAndReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string key = "send_activation of stage 0, device 0 to 1";
  const std::vector<Wrong> all{
      {[](Tried& t) { t.network.links[Network::LinkId{0}].bytes_per_second = 0.0; },
       "link \"link 0\" carries 0 bytes per second, so what crosses it would never arrive"},
      {[](Tried& t) { t.network.links[Network::LinkId{0}].bytes_per_second = -1.0; },
       "link \"link 0\" carries -1 bytes per second"},
      {[=](Tried& t) { t.network.links[Network::LinkId{0}].bytes_per_second = nan; },
       "link \"link 0\" carries nan bytes per second"},
      {[](Tried& t) { t.flow().links = {Network::LinkId{7}}; }, key + " crosses link 7 of 1"},
      {[](Tried& t) { t.flow().links = {}; }, key + " crosses no link, and has no rate of its own"},
      {[](Tried& t) { t.flow().bytes = -1; }, key + ": a flow of -1 bytes"},
      {[](Tried& t) { t.flow().latency = Duration(-5); }, key + ": a latency of -5 ns"},
      {[](Tried& t) { t.flow().bytes_per_second = 0.0; },
       key + ": at most 0 bytes per second, so it would never arrive"},
      {[](Tried& t) { t.flow().weight = 0.0; }, key + ": a share of weight 0"},
      {[](Tried& t) {
         t.flow().bytes = 1'000'000'000'000;
         t.network.links[Network::LinkId{0}].bytes_per_second = 1e-9;
       },
       key + ": 1000000000000 bytes at 1e-09 bytes per second take longer than 30 years"},
      {[](Tried& t) { t.network.flows.resize(1); }, "1 rows of flows for 8 cost keys"},
      {[](Tried& t) { t.network.flows[t.program[InstructionId{0}].cost] = {t.flow()}; },
       "forward of stage 0, device 0 to 0 has a flow: it computes"},
      {[](Tried& t) { t.network.compute_slowdown = {1.0, 0.5}; },
       "device 1: a slowdown of compute of 0.5, not 1 or more"},
      {[](Tried& t) { t.network.compute_slowdown = {1.0}; },
       "1 slowdowns of compute for 2 devices"},
  };
  for (const Wrong& wrong : all) {
    Tried tried;
    wrong.change(tried);
    EXPECT_THAT(tried.diagnostic(), ::testing::HasSubstr(wrong.diagnostic));
  }
}

TEST(Network, TellsOfAllThatIsWrong) {
  Tried tried;
  tried.network.links[Network::LinkId{0}].bytes_per_second = 0.0;
  tried.flow().bytes = -1;
  EXPECT_THAT(tried.diagnostic(), ::testing::AllOf(::testing::HasSubstr("would never arrive"),
                                                   ::testing::HasSubstr("-1 bytes")));
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
