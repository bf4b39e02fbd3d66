// simulate_contended(): results of whole runs, the period of the endless one, and refusals.

#include "simulator/contended.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "core/error.h"
#include "simulator/contended_machine.h"
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

TEST(Contended, RefusesWhatNeverArrivesAndWhatNoClockHolds) {
  Shared shared(pipeline("1f1b", 3, 4));
  const auto simulated = [&](std::int64_t batches) {
    return simulate_contended(shared.program, shared.costs, shared.network, {.batches = batches});
  };
  EXPECT_NO_THROW(simulated(1));
  EXPECT_THROW(simulated(1'000'000'000'000), InputError);
  shared.network.links[Network::LinkId{0}].bytes_per_second = 0.0;
  EXPECT_THROW(simulated(1), InputError);
}

}  // namespace
}  // namespace tandem::testing
