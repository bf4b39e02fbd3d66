// The simulated machine by examples worked out by hand.

#include "simulator/engine/simulated_machine.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

struct Outcome {
  Timeline timeline;
  Table<DeviceId, DeviceTally> tallies;

  Span of(const Program& program, OpKind kind, int stage, std::int64_t microbatch) const {
    for (const Span& span : timeline.spans) {
      const Op& op = program[span.instruction].op;
      if (op.kind == kind && index(op.replica) == static_cast<std::size_t>(stage) &&
          span.body * program.microbatches() + op.microbatch == microbatch) {
        return span;
      }
    }
    ADD_FAILURE() << name(kind) << " " << microbatch << " of stage " << stage << " did not run";
    return {};
  }
};

Outcome run_of(const Program& program, const PlainCosts& costs, std::int64_t batches) {
  Outcome result;
  const CostTable table = plain_costs(program, costs);
  SimulatedMachine machine(program, table, &result.timeline);
  run(program, program.order(), batches, machine);
  result.tallies = machine.tallies();
  return result;
}

TEST(SimulatedMachine, HoldsATransferOnBothDevicesOneAfterTheOther) {
  const Program shared = program_of(pipeline("gpipe", 2, 3));
  // Forwards end at 1, 2, 3; each transfer takes 10 and waits for the one before it.
  const Outcome run = run_of(shared, {.forward = 1, .backward = 1, .transfer = 10}, 1);
  EXPECT_EQ(run.of(shared, OpKind::send_activation, 0, 0).start.count(), 1);
  EXPECT_EQ(run.of(shared, OpKind::send_activation, 0, 1).start.count(), 11);
  EXPECT_EQ(run.of(shared, OpKind::send_activation, 0, 2).start.count(), 21);
}

TEST(SimulatedMachine, LetsIdealTransfersOverlap) {
  const Program ideal = program_of(pipeline("gpipe", 2, 3), TransferLanes::ideal);
  const Outcome run = run_of(ideal, {.forward = 1, .backward = 1, .transfer = 10}, 1);
  EXPECT_EQ(run.of(ideal, OpKind::send_activation, 0, 1).start.count(), 2);
  EXPECT_EQ(run.of(ideal, OpKind::send_activation, 0, 2).end.count(), 13);
}

TEST(SimulatedMachine, CountsBusyUsefulAndExposedTime) {
  Pipeline wanted = pipeline("gpipe", 2, 2);
  wanted.request.recompute = Recompute::stage;
  const Program program = program_of(wanted);
  // 0 | f0 0-2 f1 2-4                        r0 4-6 b0 18-22  r1 22-24 b1 27-31  U 31-32
  // 1 |   f0 5-7  f1 8-10  r0 10-12 b0 12-16 r1 16-18 b1 18-22 U 22-23
  // Activations travel 2-5 and 5-8, gradients 16-19 and 22-25.
  const Outcome run =
      run_of(program, {.forward = 2, .backward = 4, .transfer = 3, .recompute = 2, .update = 1}, 1);
  EXPECT_EQ(run.of(program, OpKind::forward, 1, 1).start.count(), 8);
  EXPECT_EQ(run.of(program, OpKind::backward, 0, 0).start.count(), 19);
  EXPECT_EQ(run.of(program, OpKind::backward, 0, 1).start.count(), 25);
  const DeviceTally& first = run.tallies[DeviceId{0}];
  EXPECT_EQ(first.busy.count(), 2 * (2 + 2 + 4) + 1);
  EXPECT_EQ(first.useful.count(), 2 * (2 + 4));
  // b0 stands from 6 to 19 while its gradient runs 16-19; b1 starts at once (25 = 23 + 2).
  EXPECT_EQ(first.exposed_communication.count(), 3);
  EXPECT_EQ(first.first_start.count(), 0);
  EXPECT_EQ(first.last_end.count(), 30);
  // f0 stands from 0 while its activation runs 2-5, f1 from 7 to 8.
  EXPECT_EQ(run.tallies[DeviceId{1}].exposed_communication.count(), 3 + 1);
  EXPECT_EQ(run.tallies[DeviceId{1}].first_start.count(), 5);
}

TEST(SimulatedMachine, CountsASumThatTheNextBatchWaitsForAsExposed) {
  Pipeline wanted = pipeline("gpipe", 1, 2);
  wanted.request.width = 2;
  const Program program = program_of(wanted);
  // f0 0-1 f1 1-2 b0 2-4 b1 4-6, sum 6-16, update 16-19: the sum is exposed, the update is work.
  const Outcome run = run_of(program, {.forward = 1, .backward = 2, .update = 3, .reduce = 10}, 2);
  EXPECT_EQ(run.of(program, OpKind::forward, 0, 2).start.count(), 19);
  EXPECT_EQ(run.tallies[DeviceId{0}].exposed_communication.count(), 2 * 10);
  EXPECT_EQ(run.tallies[DeviceId{0}].busy.count(), 2 * (6 + 3));
}

TEST(SimulatedMachine, HidesASumBehindTheNextBatchIn2BW) {
  Pipeline wanted = pipeline("2bw", 1, 2);
  wanted.request.width = 2;
  const Program program = program_of(wanted);
  const Outcome hidden = run_of(program, {.forward = 1, .backward = 2, .reduce = 5}, 4);
  // Only the last batch has none behind it.
  EXPECT_EQ(hidden.tallies[DeviceId{0}].exposed_communication.count(), 5);
  EXPECT_EQ(hidden.tallies[DeviceId{0}].last_end.count(), 4 * 6 + 5);
  // One more than a batch lasts and it shows: by 1 for each of three batches, and the last sum.
  const Outcome shown = run_of(program, {.forward = 1, .backward = 2, .reduce = 7}, 4);
  EXPECT_EQ(shown.tallies[DeviceId{0}].exposed_communication.count(), 3 * 1 + 7);
}

TEST(SimulatedMachine, RunsOnlyWhatFallsInsideTheRun) {
  const Program program = program_of(pipeline("2bw", 4, 4));
  for (const std::int64_t batches : {1, 2, 5}) {
    const Outcome run = run_of(program, {}, batches);
    EXPECT_EQ(run.timeline.spans.size(), program.size() * static_cast<std::size_t>(batches));
  }
}

}  // namespace
}  // namespace tandem::testing
