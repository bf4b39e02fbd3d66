// BPipe in time: nothing where stashes move fast enough, and the closed form of what it costs where
// they don't.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/simulator/published.h"

namespace tandem::testing {
namespace {

// From a forward to the second backward behind it a stash has a backward and a forward to leave,
// and the next one to come.
TEST(BPipe, TakesTheTimeOf1F1BWhereStashesMoveInAForwardAndABackward) {
  for (const int p : {2, 4, 6, 8, 12}) {
    for (const int m : {1, 2, p - 1, p, p + 1, 3 * p}) {
      for (const auto& [forward, backward, move] :
           {std::tuple{10, 20, 15}, std::tuple{10, 10, 10}, std::tuple{20, 40, 1}}) {
        for (const int transfer : {0, 3}) {
          const PlainCosts costs{
              .forward = forward, .backward = backward, .transfer = transfer, .move = move};
          SCOPED_TRACE(fmt::format("p {} m {} F {} B {} move {} transfer {}", p, m, forward,
                                   backward, move, transfer));
          const SimulationResult bpipe = simulated(pipeline("bpipe", p, m), costs, 3);
          const SimulationResult plain = simulated(pipeline("1f1b", p, m), costs, 3);
          EXPECT_EQ(bpipe.makespan, plain.makespan);
          EXPECT_EQ(period(bpipe), period(plain));
        }
      }
    }
  }
}

// The first device evicts every other microbatch: two of them take F + B + 2 M instead of
// 2 (F + B), once M, the time of a move, is more than half of F + B.
TEST(BPipe, CostsWhatTheMovesOfTwoMicrobatchesTakeBeyondOne) {
  for (const int p : {4, 6, 8}) {
    for (const int move : {15, 16, 20, 50}) {
      const PlainCosts costs{.forward = 10, .backward = 20, .move = move};
      const auto makespan = [&](int m) {
        return simulated(pipeline("bpipe", p, m), costs).makespan.count();
      };
      const int m = 6 * p;
      EXPECT_EQ(makespan(m + 10) - makespan(m), 5 * std::max(2 * 30, 30 + 2 * move))
          << "p " << p << " move " << move;
    }
  }
}

TEST(BPipe, HoldsWhatTheTableSays) {
  const SimulationResult result = simulated(pipeline("bpipe", 8, 16), kUnit);
  for (const DeviceUse& use : result.devices) EXPECT_LE(use.peak_activations, 5);
  EXPECT_EQ(result.devices[DeviceId{0}].peak_activations, 5);
  const SimulationResult plain = simulated(pipeline("1f1b", 8, 16), kUnit);
  EXPECT_EQ(plain.devices[DeviceId{0}].peak_activations, 8);
}

}  // namespace
}  // namespace tandem::testing
