// simulate_contended(): results of whole runs, the period of the endless one, and refusals.

#include "simulator/contention/contended.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "simulator/contention/contended_machine.h"
#include "simulator/contention/least_costs.h"
#include "simulator/run_figures.h"
#include "tests/support/networks.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// A pipeline whose transfers share a backbone that two of them fill.
struct Shared {
  Program program;
  CostTable costs;
  Network network;

  explicit Shared(const Pipeline& wanted, std::int64_t transfer = 400'000)
      : program(program_of(wanted)),
        costs(plain_costs(program,
                          {.forward = 1'000'000, .backward = 2'000'000, .transfer = transfer})),
        network(backbone(program, costs, 1e9)) {}
};

std::vector<Shared> several() {
  std::vector<Shared> all;
  for (const char* schedule : {"1f1b", "gpipe", "2bw", "zb-h1", "zbv"}) {
    for (const int p : {2, 3, 4}) {
      all.emplace_back(pipeline(schedule, p, 2 * p));
      all.emplace_back(pipeline(schedule, p, 2 * p), 1'300'000);
    }
  }
  all.emplace_back(pipeline("2bw", 4, 6));
  all.emplace_back(pipeline("2bw", 5, 7));
  return all;
}

DeviceTallies whole(const Shared& shared, std::int64_t batches) {
  const ContendedProgram compiled(shared.program, shared.costs, shared.network);
  ContendedMachine machine(compiled);
  machine.run(batches);
  return machine.tallies();
}

TEST(Contended, EqualsALongRunDoneWhole) {
  for (const Shared& shared : several()) {
    SCOPED_TRACE(shared.program.schedule());
    for (const std::int64_t batches : {1, 7, 60, 61, 62, 63}) {
      const SimulationResult result =
          simulate_contended(shared.program, shared.costs, shared.network, {.batches = batches});
      const DeviceTallies tallies = whole(shared, batches);
      SimulationResult expected;
      set_devices(shared.program, tallies, 1.0, expected);
      EXPECT_EQ(result.makespan, expected.makespan) << batches;
      EXPECT_EQ(result.span, expected.span);
      for (const DeviceId device : ids(result.devices)) {
        EXPECT_EQ(result.devices[device].busy, expected.devices[device].busy);
        EXPECT_EQ(result.devices[device].exposed_communication,
                  expected.devices[device].exposed_communication);
      }
    }
  }
}

TEST(Contended, FindsThePeriodByWhichALongRunGrows) {
  int exact = 0;
  for (const Shared& shared : several()) {
    const SimulationResult result =
        simulate_contended(shared.program, shared.costs, shared.network, {});
    if (!result.exact_cycle) continue;
    ++exact;
    const auto makespan = [&](std::int64_t batches) {
      SimulationResult run;
      set_devices(shared.program, whole(shared, batches), 1.0, run);
      return run.makespan;
    };
    const std::int64_t many = 40 + result.steady_from_batch;
    const Duration grows = makespan(many + result.cycle_batches) - makespan(many);
    EXPECT_LE(std::abs((grows - result.cycle).count()), 1) << shared.program.schedule();
  }
  EXPECT_GE(exact, 24) << "of 32";
}

TEST(Contended, TakesLongerThanUnsharedWhereTheBackboneIsFull) {
  // 7 activations and 7 gradients of 400 us a microbatch: 5.6 ms of backbone for 3 ms of work.
  const Shared shared(pipeline("1f1b", 8, 16));
  const SimulationResult alone = simulate(shared.program, shared.costs, {}),
                         result =
                             simulate_contended(shared.program, shared.costs, shared.network, {});
  EXPECT_LT(alone.period_s(), 16 * 5.6e-3);
  EXPECT_GE(result.period_s(), 16 * 5.6e-3);
  EXPECT_GT(result.devices[DeviceId{0}].exposed_communication,
            alone.devices[DeviceId{0}].exposed_communication);
}

/// No instruction, nor the period, is sooner than at the least costs, on any network: and with
/// costs that are a little higher some are.
TEST(Contended, NothingIsSoonerThanAtTheLeastCosts) {
  std::mt19937_64 random(7);
  std::size_t later = 0, tight = 0, sooner_than_more = 0;
  for (const char* schedule : {"1f1b", "gpipe", "2bw", "zbv", "interleaved", "chimera"}) {
    for (int turn = 0; turn < 8; ++turn) {
      const Program program = program_of(pipeline(schedule, 4, 8));
      CostTable costs = random_costs(program, random(), Spread::wide);
      for (Duration& cost : costs) cost *= 1000;
      const Network network = random_network(program, random, turn % 2 == 1);
      const CostTable least = least_costs(network, costs);
      CostTable more = least;
      for (const CostId key : moving_keys(program)) more[key] += more[key] / 2 + Duration(1000);
      constexpr SimulationRequest kRecorded{.batches = 5, .record = true};
      const SimulationResult with = simulate_contended(program, costs, network, kRecorded),
                             without = simulate(program, least, kRecorded),
                             above = simulate(program, more, kRecorded);
      ASSERT_EQ(with.timeline->spans.size(), without.timeline->spans.size());
      std::map<std::pair<std::int64_t, InstructionId>, Duration> ends, more_ends;
      for (const Span& span : without.timeline->spans)
        ends[{span.body, span.instruction}] = span.end;
      for (const Span& span : above.timeline->spans)
        more_ends[{span.body, span.instruction}] = span.end;
      for (const Span& span : with.timeline->spans) {
        const auto at = std::pair(span.body, span.instruction);
        EXPECT_GE(span.end, ends.at(at)) << schedule << turn;
        later += span.end > ends.at(at) ? 1 : 0;
        sooner_than_more += span.end < more_ends.at(at) ? 1 : 0;
      }
      if (!with.exact_cycle) continue;
      EXPECT_GE(with.period_s(), without.period_s() - 1e-9) << schedule << turn;
      tight += with.period_s() < 1.05 * without.period_s() ? 1 : 0;
    }
  }
  EXPECT_GT(later, 1000u);
  EXPECT_GT(tight, 3u);
  EXPECT_GT(sooner_than_more, 100u);
}

TEST(Contended, IsSimulateWhereNothingIsShared) {
  for (const std::string& schedule : schedule_names()) {
    for (const Pipeline& wanted : every_pipeline(schedule, {2}, {4})) {
      const Program program = program_of(wanted);
      const CostTable costs = random_costs(program, 3, Spread::wide);
      const SimulationRequest request{.batches = 9};
      const SimulationResult fast = simulate(program, costs, request),
                             ours = simulate_contended(program, costs,
                                                       private_links(program, costs), request);
      EXPECT_EQ(ours.makespan, fast.makespan);
      EXPECT_EQ(ours.cycle, fast.cycle);
      EXPECT_EQ(ours.steady_from_batch, fast.steady_from_batch);
    }
  }
}

TEST(Contended, RecordsTheTimeline) {
  const Shared shared(pipeline("1f1b", 3, 4));
  const SimulationResult result = simulate_contended(shared.program, shared.costs, shared.network,
                                                     {.batches = 3, .record = true});
  ASSERT_TRUE(result.timeline);
  EXPECT_EQ(result.timeline->spans.size(), 3 * shared.program.size());
  Duration last{};
  for (const Span& span : result.timeline->spans) last = std::max(last, span.end);
  EXPECT_EQ(last, result.makespan);
}

TEST(Contended, RefusesWhatNoClockHolds) {
  const Shared shared(pipeline("1f1b", 3, 4));
  const auto simulated = [&](std::int64_t batches) {
    return simulate_contended(shared.program, shared.costs, shared.network, {.batches = batches});
  };
  EXPECT_NO_THROW(simulated(1));
  EXPECT_THROW(simulated(1'000'000'000'000), InputError);
}

TEST(Contended, RefusesARunTooLongToFollowUnlessItRepeats) {
  Shared shared(pipeline("1f1b", 3, 4));
  const auto simulated = [&](const SimulationRequest& request) {
    return simulate_contended(shared.program, shared.costs, shared.network, request);
  };
  // Batches of three minutes: the clock of what is followed holds some 1,600.
  for (Duration& cost : shared.costs) cost *= 10'000;
  EXPECT_NO_THROW(simulated({.batches = 5000}));
  EXPECT_THROW(simulated({.batches = 5000, .record = true}), InputError);
  // Of two days: one fits, but says nothing of the period.
  for (Duration& cost : shared.costs) cost *= 1'000;
  EXPECT_THROW(simulated({}), InputError);
  // A single op outlasts the clock, or what is left of the largest number.
  for (Duration& cost : shared.costs) cost *= 1'000;
  EXPECT_THROW(simulated({}), InputError);
}

TEST(Contended, RefusesATransferThatOutlastsTheClock) {
  // 1e15 bytes at a byte a nanosecond: 11 days.
  const Shared shared(pipeline("1f1b", 3, 4), 1'000'000'000'000'000);
  EXPECT_THROW(simulate_contended(shared.program, shared.costs, shared.network, {}), InputError);
}

TEST(Contended, FollowsARunWhoseWorkSummedOverDevicesIsLongerThanTheClock) {
  Shared shared(pipeline("1f1b", 8, 8));
  std::int64_t work = 0;
  for (Duration& cost : shared.costs) cost *= 1'000'000;
  for (const Instruction& instruction : shared.program.instructions()) {
    if (on_compute_lane(instruction.op.kind)) work += shared.costs[instruction.cost].count();
  }
  const SimulationRequest request{.batches = 2};
  EXPECT_GT(request.batches * work, kEndOfClock / kTicks);
  const SimulationResult result =
      simulate_contended(shared.program, shared.costs, shared.network, request);
  const SimulationResult alone =
      simulate(shared.program, unshared_costs(shared.network, shared.costs), request);
  EXPECT_LT(result.makespan.count(), kEndOfClock / kTicks);
  // Transfers take a millionth of the time.
  EXPECT_NEAR(to_seconds(result.makespan) / to_seconds(alone.makespan), 1.0, 1e-4);
  EXPECT_NEAR(result.period_s() / alone.period_s(), 1.0, 1e-4);
}

TEST(Contended, IsSimulateWhereNothingIsSharedHoweverLong) {
  const Program program = program_of(pipeline("1f1b", 3, 4));
  // Ops of 11 days and more.
  const CostTable costs =
      plain_costs(program, {.forward = 1'000'000'000'000'000, .backward = 2'000'000'000'000'000});
  const SimulationRequest request{.batches = 3};
  EXPECT_EQ(simulate_contended(program, costs, private_links(program, costs), request).makespan,
            simulate(program, costs, request).makespan);
}

}  // namespace
}  // namespace tandem::testing
