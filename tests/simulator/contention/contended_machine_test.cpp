// The contended machine: where nothing is shared, against the machine that defines simulated time,
// over the registry; where something is, by examples worked out by hand and against an oracle that
// knows no groups, no queue and no rounding.

#include "simulator/contention/contended_machine.h"

#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "simulator/engine/simulated_machine.h"
#include "tests/support/contended_oracle.h"
#include "tests/support/networks.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

struct SpansAndTallies {
  std::vector<Span> spans;
  DeviceTallies tallies;
  friend bool operator==(const SpansAndTallies&, const SpansAndTallies&) = default;
};

SpansAndTallies contended(const Program& program, const CostTable& costs, const Network& network,
                          std::int64_t batches) {
  check(network, program);
  const ContendedProgram compiled(program, costs, network);
  Timeline timeline;
  ContendedMachine machine(compiled, &timeline);
  machine.run(batches);
  return {timeline.spans, machine.tallies()};
}

SpansAndTallies uncontended(const Program& program, const CostTable& costs, std::int64_t batches) {
  Timeline timeline;
  SimulatedMachine machine(program, costs, &timeline);
  run(program, program.order(), batches, machine);
  return {timeline.spans, machine.tallies()};
}

class EveryScheduleContended : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScheduleContended, EqualsTheMachineToTheNanosecondWhereNothingIsShared) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {1, 4, 6})) {
    SCOPED_TRACE(wanted.name());
    const auto lanes = ++seed % 2 == 0 ? TransferLanes::shared : TransferLanes::ideal;
    const Program program = program_of(wanted, lanes);
    const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    const auto batches = static_cast<std::int64_t>(1 + seed % 4);
    const SpansAndTallies expected = uncontended(program, costs, batches);
    ASSERT_EQ(contended(program, costs, {}, batches), expected);
    // Links that nothing shares, and one that all share and that is never full: a byte a nanosecond
    // from each key of at most a thousand.
    const Network wide = backbone(program, costs, 1e18);
    ASSERT_EQ(contended(program, costs, wide, batches), expected);
    if (lanes == TransferLanes::ideal) continue;
    ASSERT_EQ(contended(program, costs, private_links(program, costs), batches), expected);
  }
}

TEST_P(EveryScheduleContended, IsSlowerWhereAllShareALinkThatIsFull) {
  const std::vector<Pipeline> wanted = every_pipeline(GetParam(), {4}, {4});
  if (wanted.empty()) return;  // a schedule for one number of devices only
  const Program program = program_of(wanted.front());
  if (moving_keys(program).empty()) return;
  const CostTable costs = random_costs(program, 3, Spread::wide);
  const SpansAndTallies alone = uncontended(program, costs, 2);
  const SpansAndTallies shared = contended(program, costs, backbone(program, costs, 1e8), 2);
  EXPECT_NE(shared, alone);
  EXPECT_EQ(shared.spans.size(), alone.spans.size());
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryScheduleContended, ::testing::ValuesIn(schedule_names()),
                         test_name);

/// How far apart the two are at the most, in nanoseconds.
double apart(const Program& program, const CostTable& costs, const Network& network,
             std::int64_t batches) {
  std::map<std::pair<std::int64_t, InstructionId>, Span> spans;
  for (const Span& span : contended(program, costs, network, batches).spans) {
    spans[{span.body, span.instruction}] = span;
  }
  const std::vector<OracleSpan> oracle = times_over_network(program, costs, network, batches);
  EXPECT_EQ(spans.size(), oracle.size());
  double most = 0.0;
  for (const OracleSpan& expected : oracle) {
    const Span& span = spans[{expected.body, expected.id}];
    for (const auto& [ours, theirs] :
         {std::pair(span.start, expected.start), std::pair(span.end, expected.end)}) {
      most =
          std::max(most, std::abs(static_cast<double>(ours.count()) - static_cast<double>(theirs)));
    }
  }
  return most;
}

/// Prices of about a millisecond.
CostTable long_costs(const Program& program, std::uint64_t seed) {
  CostTable costs = random_costs(program, seed, Spread::wide);
  for (Duration& cost : costs) cost *= 1000;
  return costs;
}

const std::vector<std::string_view> kMixed{"1f1b",  "gpipe", "2bw",   "interleaved",
                                           "zb-h1", "zbv",   "bpipe", "chimera"};

/// Small pipelines of all sorts, by seed.
Program random_program(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (;;) {
    Pipeline wanted = pipeline(kMixed[below(kMixed.size())], static_cast<int>(2 + below(3)),
                               static_cast<std::int32_t>(2 + below(4)));
    if (wanted.schedule == "interleaved") wanted.request.chunks = 2;
    wanted.request.tied_embeddings = below(2) == 0;
    wanted.request.width = static_cast<std::uint16_t>(1 + below(2));
    if (!is_served(wanted)) continue;
    return program_of(wanted, below(4) == 0 ? TransferLanes::ideal : TransferLanes::shared);
  }
}

TEST(ContendedMachine, EqualsAnOracleOverRandomNetworks) {
  std::mt19937_64 random(20260101);
  for (int i = 0; i < 60; ++i) {
    const Program program = random_program(random);
    const CostTable costs = long_costs(program, random());
    const Network network = random_network(program, random, i % 3 == 0);
    const int batches = 1 + i % 2;
    // Each instance is rounded once, and no path is longer than all of them.
    const double rounding = 0.5 * static_cast<double>(program.size()) * batches;
    EXPECT_LE(apart(program, costs, network, batches), rounding) << i << ": " << program.schedule();
  }
}

TEST(ContendedMachine, OracleNoticesAnotherNetwork) {
  std::mt19937_64 random(5);
  int noticed = 0;
  for (int i = 0; i < 20; ++i) {
    const Program program = random_program(random);
    const CostTable costs = long_costs(program, random());
    const Network network = random_network(program, random, false);
    Network other = network;
    for (Network::Link& link : other.links) link.bytes_per_second *= 0.97;
    const auto oracle = times_over_network(program, costs, network, 1);
    const auto wrong = contended(program, costs, other, 1).spans;
    double most = 0.0;
    for (std::size_t j = 0; j < oracle.size(); ++j) {
      most = std::max(most, std::abs(static_cast<double>(wrong[j].end.count()) -
                                     static_cast<double>(oracle[j].end)));
    }
    if (most > 0.6) ++noticed;
  }
  EXPECT_GE(noticed, 18);
}

/// One op of a stage for a microbatch.
Span span_of(const Program& program, const SpansAndTallies& outcome, OpKind kind, std::size_t stage,
             std::int32_t microbatch) {
  for (const Span& span : outcome.spans) {
    const Op& op = program[span.instruction].op;
    if (op.kind == kind && index(op.replica) == stage && op.microbatch == microbatch) return span;
  }
  ADD_FAILURE() << name(kind) << " did not run";
  return {};
}

CostId key_of(const Program& program, OpKind kind, std::size_t stage) {
  for (const CostId id : ids(program.cost_keys())) {
    const CostKey& key = program.cost_keys()[id];
    if (key.kind == kind && index(key.replica) == stage) return id;
  }
  ADD_FAILURE() << "no " << name(kind);
  return {};
}

TEST(ContendedMachine, HalvesARateForAslongAsTwoShareALink) {
  // Three devices, gpipe: stage 0's second activation travels beside stage 1's first.
  const Program program = program_of(pipeline("gpipe", 3, 2));
  const CostTable costs = plain_costs(program, {.forward = 1000, .backward = 1});
  Network network = empty_network(program);
  const Network::LinkId link = add_link(network, 1e9);
  for (const std::size_t stage : {0, 1}) {
    network.flows[key_of(program, OpKind::send_activation, stage)] = {
        {.bytes = 600, .latency = Duration(100), .links = {link}}};
  }
  const SpansAndTallies run = contended(program, costs, network, 1);
  // Alone: 1000 + 100 latency + 600.
  EXPECT_EQ(span_of(program, run, OpKind::send_activation, 0, 0).end.count(), 1700);
  // The second from 2000: its bytes from 2100 on, alone until those of stage 1's (forward until
  // 2700, latency until 2800) join; 600 bytes are there at 2700, before that.
  EXPECT_EQ(span_of(program, run, OpKind::send_activation, 0, 1).end.count(), 2700);
  EXPECT_EQ(span_of(program, run, OpKind::send_activation, 1, 0).end.count(), 3400);
  // Latencies take nothing of the link; with 1400 bytes they meet from 3600 on: forward 1 until
  // 3500, its activation's bytes from 3600; the second of stage 0 from 2500 + 100 to …
  for (const std::size_t stage : {0, 1}) {
    network.flows[key_of(program, OpKind::send_activation, stage)].front().bytes = 1400;
  }
  const SpansAndTallies longer = contended(program, costs, network, 1);
  // First: 1000 to 2500. Second: lane free at 2500, bytes 2600 on. Stage 1's: 3500, bytes 3600 on.
  // 1000 of the second's bytes pass until 3600, its last 400 at half the rate until 4400, 400 of
  // the other's too; its last 1000 alone until 5400.
  EXPECT_EQ(span_of(program, longer, OpKind::send_activation, 0, 1).end.count(), 4400);
  EXPECT_EQ(span_of(program, longer, OpKind::send_activation, 1, 0).end.count(), 5400);
}

TEST(ContendedMachine, MovesFlowsOfAKeyOneAfterTheOther) {
  const Program program = program_of(pipeline("gpipe", 2, 1));
  const CostTable costs = plain_costs(program, {.forward = 1000, .backward = 1});
  Network network = empty_network(program);
  const Network::LinkId fast = add_link(network, 1e9), slow = add_link(network, 1e8);
  network.flows[key_of(program, OpKind::send_activation, 0)] = {
      {.bytes = 500, .latency = Duration(10), .links = {fast}},
      {.bytes = 50, .latency = Duration(5), .links = {fast, slow}},
      {.bytes = 0, .latency = Duration(7)}};
  const SpansAndTallies run = contended(program, costs, network, 1);
  EXPECT_EQ(span_of(program, run, OpKind::send_activation, 0, 0).end.count(),
            1000 + 10 + 500 + 5 + 500 + 7);
}

TEST(ContendedMachine, LetsASumShareALinkWithATransfer) {
  // The tied sum of two devices crosses both directions of the link that transfers take.
  Pipeline wanted = pipeline("2bw", 2, 2);
  wanted.request.tied_embeddings = true;
  const Program program = program_of(wanted);
  const CostTable costs = plain_costs(program, {.forward = 1000, .backward = 2000});
  Network alone = empty_network(program);
  const Network::LinkId down = add_link(alone, 1e9);
  alone.flows[key_of(program, OpKind::send_activation, 0)] = {{.bytes = 400, .links = {down}}};
  alone.flows[key_of(program, OpKind::reduce_tied, 0)] = {{.bytes = 4000, .links = {down}}};
  const SpansAndTallies run = contended(program, costs, alone, 3);
  std::int64_t longest = 0;
  for (const Span& span : run.spans) {
    if (program[span.instruction].op.kind != OpKind::send_activation) continue;
    const std::int64_t took = (span.end - span.start).count();
    EXPECT_TRUE(took >= 400 && took <= 800) << took;
    longest = std::max(longest, took);
  }
  EXPECT_EQ(longest, 800) << "half the rate all the way";
  EXPECT_LT(apart(program, costs, alone, 3), 0.6);
}

TEST(ContendedMachine, SlowsComputeWhileItsDeviceMovesData) {
  // Device 0: f0 0-1000, f1 from 1000; f0's activation moves 1000-1600. Twice as slow until then,
  // f1 has done 300 of 1000 by 1600 and ends at 2300.
  const Program program = program_of(pipeline("gpipe", 2, 2));
  const CostTable costs = plain_costs(program, {.forward = 1000, .backward = 10, .transfer = 600});
  Network network;
  network.compute_slowdown = {2.0, 1.5};
  const SpansAndTallies run = contended(program, costs, network, 1);
  EXPECT_EQ(span_of(program, run, OpKind::forward, 0, 1).end.count(), 2300);
  // Device 1: f0 from 1600; its device receives 2300-2900. 700 are done by 2300, 1100 by 2900 at
  // a pace of 1.5: the last 300 take until 2900 and end with 100 more nanoseconds of 1.5 … so
  // 700 + 600 / 1.5 = 1100 > 1000: ends at 2300 + 300 * 1.5.
  EXPECT_EQ(span_of(program, run, OpKind::forward, 1, 0).start.count(), 1600);
  EXPECT_EQ(span_of(program, run, OpKind::forward, 1, 0).end.count(), 2750);
  // What it does counts by its price, what it holds by its time.
  EXPECT_EQ(run.tallies[DeviceId{0}].useful.count(), 2 * 1010);
  EXPECT_GT(run.tallies[DeviceId{0}].busy.count(), 2 * 1010 + 299);
}

TEST(ContendedMachine, IsNotSlowedByWhatTakesNoTime) {
  for (const std::string& schedule : schedule_names()) {
    for (const Pipeline& wanted : every_pipeline(schedule, {2, 4}, {4})) {
      const Program program = program_of(wanted);
      CostTable costs = random_costs(program, 9, Spread::wide);
      for (const CostId key : moving_keys(program)) costs[key] = {};
      Network network;
      for (std::size_t i = 0; i < program.placement().devices; ++i) {
        network.compute_slowdown.push_back(2.0);
      }
      ASSERT_EQ(contended(program, costs, network, 2), uncontended(program, costs, 2))
          << wanted.name();
    }
  }
}

}  // namespace
}  // namespace tandem::testing
