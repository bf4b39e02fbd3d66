// Programs whose devices do not compute while they send or receive: by closed forms, and over the
// registry that nothing overlaps, that nothing is lost, and that all ways to simulate agree.

#include "simulator/engine/blocking_transfers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "simulator/simulate.h"
#include "tests/support/pipelines.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kForwardTime = 3, kBackwardTime = 5, kTransferTime = 2;
constexpr PlainCosts kCosts{
    .forward = kForwardTime, .backward = kBackwardTime, .transfer = kTransferTime};

SimulationResult blocked(const Pipeline& wanted, const PlainCosts& costs) {
  const Program program = with_blocking_transfers(program_of(wanted));
  return simulate(program, plain_costs(program, costs), {});
}

std::int64_t period_of_one_batch(const SimulationResult& result) {
  EXPECT_EQ(result.cycle_batches, 1);
  return result.cycle.count();
}

/// Each microbatch makes each device wait for a neighbour twice: for the one before, where a
/// gradient leaves as an activation comes, and for the one after.
TEST(BlockingTransfers, PipelinesTakeWhatTheirTransfersTake) {
  const std::int64_t computed = kForwardTime + kBackwardTime;
  for (const int p : {3, 4, 5}) {
    for (const std::int32_t m : {p, p + 1, 2 * p}) {
      EXPECT_EQ(period_of_one_batch(blocked(pipeline("2bw", p, m), kCosts)),
                m * (computed + 2 * kTransferTime));
      const std::int64_t drained = (m + p - 1) * computed + 2 * kTransferTime * (m + p - 2);
      EXPECT_EQ(period_of_one_batch(blocked(pipeline("gpipe", p, m), kCosts)), drained);
      // The last stage gets its last activation as its gradient before leaves.
      EXPECT_EQ(period_of_one_batch(blocked(pipeline("1f1b", p, m), kCosts)),
                drained - kTransferTime);
      // One microbatch after the other, each there and back.
      EXPECT_EQ(period_of_one_batch(blocked(pipeline("model-parallel", p, m), kCosts)),
                m * (p * computed + 2 * kTransferTime * (p - 1)));
      const Program overlapped = program_of(pipeline("2bw", p, m));
      const SimulationResult beside = simulate(overlapped, plain_costs(overlapped, kCosts), {});
      EXPECT_LT(beside.cycle.count(), beside.cycle_batches * m * (computed + 2 * kTransferTime));
    }
  }
}

/// A stage's forward is run again once the gradient is there, not while it is waited for.
TEST(BlockingTransfers, RecomputationFollowsTheGradient) {
  Pipeline wanted = pipeline("model-parallel", 3, 2);
  wanted.request.recompute = Recompute::stage;
  const PlainCosts costs{.forward = 1, .backward = 2, .recompute = 1};
  EXPECT_EQ(period_of_one_batch(blocked(wanted, costs)), 2 * 3 * 4);
  const Program overlapped = program_of(wanted);
  EXPECT_EQ(period_of_one_batch(simulate(overlapped, plain_costs(overlapped, costs), {})),
            2 * (3 * 3 + 1));
}

TEST(BlockingTransfers, OneDeviceHasNone) {
  const Program program = program_of(pipeline("1f1b", 1, 3));
  const Program same = with_blocking_transfers(program);
  EXPECT_EQ(same.parts().instructions.size(), program.size());
  EXPECT_EQ(period_of_one_batch(simulate(same, plain_costs(same, kCosts), {})),
            3 * (kForwardTime + kBackwardTime));
}

/// How often a transfer runs while a device of it computes, units of several ops apart.
int overlaps(const Program& program, const std::vector<Span>& spans) {
  int found = 0;
  for (const Span& transfer : spans) {
    const Instruction& moved = program[transfer.instruction];
    if (!is_transfer(moved.op.kind)) continue;
    const CostKey& ends = program.cost_keys()[moved.cost];
    for (const Span& span : spans) {
      const Op& op = program[span.instruction].op;
      if (!is_compute(op.kind) || op.group != 0) continue;
      const DeviceId device = program.placement().device[op.replica];
      const bool takes_part = device == ends.source || device == ends.target;
      if (takes_part && span.start < transfer.end && transfer.start < span.end) ++found;
    }
  }
  return found;
}

class EverySchedulesTransfers : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesTransfers, BlockAndLoseNothing) {
  std::uint64_t seed = 1;
  int overlapped = 0;
  constexpr std::int64_t kBatches = 3;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {2, 4}, {3, 4})) {
    SCOPED_TRACE(wanted.name());
    const Program plain = program_of(wanted);
    const Program program = with_blocking_transfers(plain);
    ASSERT_EQ(program.size(), plain.size());
    ASSERT_TRUE(Unrolled(program, kBatches).ordered());
    const CostTable costs = random_costs(program, seed++, Spread::wide);
    const std::vector<Span> spans = longest_path(program, costs, kBatches);
    ASSERT_EQ(overlaps(program, spans), 0);
    overlapped += overlaps(plain, longest_path(plain, costs, kBatches));
    Duration end{};
    for (const Span& span : spans) end = std::max(end, span.end);
    ASSERT_EQ(simulate(program, costs, {.batches = kBatches}).makespan, end);
  }
  EXPECT_EQ(overlapped > 0, GetParam() != "data-parallel");
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySchedulesTransfers, ::testing::ValuesIn(schedule_names()),
                         test_name);

}  // namespace
}  // namespace tandem::testing
