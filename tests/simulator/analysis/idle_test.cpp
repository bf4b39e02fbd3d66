// What bubbles waited for, against the run unrolled to a graph.

#include "simulator/analysis/idle.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "simulator/simulate.h"
#include "tests/support/pipelines.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

/// Each follows the one after it in the run unrolled.
class Follows {
 public:
  Follows(const Program& program, std::int64_t batches) : run_(program, batches) {
    for (std::size_t i = 0; i < run_.nodes().size(); ++i)
      node_of_[{run_.nodes()[i].body, run_.nodes()[i].id}] = i;
  }
  bool operator()(const Span& then, const Span& first) const {
    const auto& follows = run_.nodes()[node_of_.at({then.body, then.instruction})].follows;
    return std::count(follows.begin(), follows.end(),
                      node_of_.at({first.body, first.instruction})) > 0;
  }

 private:
  Unrolled run_;
  std::map<std::pair<std::int64_t, InstructionId>, std::size_t> node_of_;
};

/// The chain of `bubble` leads from its end to its start without a gap. Where no op is free it
/// leads along waits and lanes; what takes no time is left out of it.
void expect_chain(const Bubble& bubble, const Follows& follows, bool none_is_free) {
  Duration until = bubble.end, sum{};
  const Span* then = &bubble.next;
  for (const HeldUp& held : bubble.chain) {
    EXPECT_EQ(held.span.end, until);
    EXPECT_GT(held.time, Duration(0));
    EXPECT_EQ(held.time, held.span.end - std::max(held.span.start, bubble.start));
    EXPECT_TRUE(!none_is_free || follows(*then, held.span));
    until = held.span.start;
    then = &held.span;
    sum += held.time;
  }
  EXPECT_EQ(sum, bubble.time());
  EXPECT_LE(until, bubble.start);
}

class EverySchedulesIdle : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesIdle, IsAllThatADeviceDidNotComputeAndEachChainFillsItsBubble) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {2, 3, 4}, {2, 4}, 4)) {
    ++seed;
    SCOPED_TRACE(wanted.name());
    const Program program = program_of(wanted);
    CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    const bool none_is_free = seed % 2 == 0;
    if (none_is_free) {
      for (const CostId cost : ids(costs)) ++costs[cost];
    }
    const SimulationResult result = simulate(program, costs, {.batches = 2, .record = true});
    const Follows follows(program, 2);
    for (const DeviceId device : ids(result.devices)) {
      const std::vector<Bubble> bubbles = bubbles_of(program, *result.timeline, device);
      Duration idle{}, until{};
      for (const Bubble& bubble : bubbles) {
        EXPECT_LE(until, bubble.start);
        EXPECT_GT(bubble.time(), Duration(0));
        if (!bubble.last) expect_chain(bubble, follows, none_is_free);
        EXPECT_TRUE(!bubble.last || bubble.end == result.makespan);
        until = bubble.end;
        idle += bubble.time();
      }
      EXPECT_EQ(idle, result.devices[device].bubble);
      Duration caused{};
      for (const Cause& cause : causes_of(program, bubbles)) caused += cause.time;
      EXPECT_EQ(caused, idle);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesIdle, ::testing::ValuesIn(schedule_names()),
                         test_name);

/// "0-6: send activation 0→1 2, forward on device 0 4; …"
std::string lines_of(const Program& program, const PlainCosts& costs, std::size_t device) {
  const SimulationResult result =
      simulate(program, plain_costs(program, costs), {.batches = 1, .record = true});
  std::string text;
  for (const Bubble& bubble : bubbles_of(program, *result.timeline, id_at<DeviceId>(device))) {
    text += fmt::format("{}-{}:", bubble.start.count(), bubble.end.count());
    if (bubble.last) text += " the end";
    for (const HeldUp& held : bubble.chain)
      text += fmt::format(" {} {},", cause(program, held.span.instruction), held.time.count());
    text += "; ";
  }
  return text;
}

TEST(Idle, SaysWhomTheLastDeviceWaitsForAndWhy) {
  const Program program = program_of(pipeline("1f1b", 2, 2));
  // Device 1: f0 6-10, b0 10-18, f1 18-22 (there since 10), b1 22-30; its last gradient needs 2,
  // and b1 on device 0 is from 32 to 40.
  EXPECT_EQ(lines_of(program, {.forward = 4, .backward = 8, .transfer = 2}, 1),
            "0-6: send activation 0→1 2, forward on device 0 4,; 30-40: the end; ");
  // Device 0: f0 0-4, f1 4-8, b0 20-28, b1 32-40.
  EXPECT_EQ(lines_of(program, {.forward = 4, .backward = 8, .transfer = 2}, 0),
            "8-20: send gradient 1→0 2, backward on device 1 8, forward on device 1 2,; 28-32: "
            "send gradient 1→0 2, backward on device 1 2,; ");
}

TEST(Idle, SaysSomethingElseAtOtherPrices) {
  const Program program = program_of(pipeline("1f1b", 2, 2));
  EXPECT_EQ(lines_of(program, {.forward = 4, .backward = 8, .transfer = 20}, 1),
            "0-24: send activation 0→1 20, forward on device 0 4,; 36-44: send activation 0→1 8,; "
            "56-84: the end; ");
}

TEST(Idle, NamesTheStageWhereDevicesHoldSeveral) {
  const Program program = program_of(pipeline("zbv", 2, 2));
  const auto last = std::find_if(
      program.instructions().begin(), program.instructions().end(), [](const Instruction& one) {
        return one.op.kind == OpKind::forward && one.op.replica == ReplicaId{3};
      });
  ASSERT_NE(last, program.instructions().end());
  const auto id =
      id_at<InstructionId>(static_cast<std::size_t>(last - program.instructions().begin()));
  EXPECT_EQ(cause(program, id), "forward of stage 3 on device 0");
  EXPECT_EQ(cause(program, id, " #5"), "forward #5 of stage 3 on device 0");
}

}  // namespace
}  // namespace tandem::testing
