#include "core/memory/memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<double> peaks_of(const Pipeline& wanted, double after_input = 1.0) {
  return peak_activations(program_of(wanted), after_input).rows();
}

std::vector<std::int32_t> slots_of(const Pipeline& wanted, SlotKind kind) {
  std::vector<std::int32_t> counts;
  for (const StageSlots& slots : count_slots(program_of(wanted))) counts.push_back(slots[kind]);
  return counts;
}

Pipeline recomputing(Pipeline wanted) {
  wanted.request.recompute = Recompute::stage;
  return wanted;
}
Pipeline tied(Pipeline wanted) {
  wanted.request.tied_embeddings = true;
  return wanted;
}
Pipeline normed(Pipeline wanted) {
  wanted.request.global_norm = true;
  return wanted;
}
Pipeline wide(Pipeline wanted) {
  wanted.request.width = 2;
  return wanted;
}

TEST(PeakActivations, AgreeWithTheClosedForms) {
  for (const int p : {1, 2, 4, 7}) {
    for (const int m : {1, 2, 4, 8, 9}) {
      const std::vector<double> all = peaks_of(pipeline("gpipe", p, m));
      const std::vector<double> one = peaks_of(pipeline("model-parallel", p, m));
      const std::vector<double> few = peaks_of(pipeline("1f1b", p, m));
      const std::vector<double> eager = peaks_of(pipeline("1f1b-eager", p, m));
      for (int d = 0; d < p; ++d) {
        const auto device = static_cast<std::size_t>(d);
        EXPECT_EQ(all[device], m);
        EXPECT_EQ(one[device], 1);
        EXPECT_EQ(few[device], std::min(m, p - d));
        EXPECT_EQ(eager[device], std::min(m, 2 * (p - d) - 1));
      }
      for (const char* name : {"pipedream", "paci"}) {
        const std::vector<double> endless = peaks_of(pipeline(name, p, m));
        for (int d = 0; d < p; ++d) EXPECT_EQ(endless[static_cast<std::size_t>(d)], p - d);
      }
      if (m >= std::max(2, p - 1)) {
        const std::vector<double> round_trips = peaks_of(pipeline("timeprest", p, m));
        for (int d = 0; d < p; ++d)
          EXPECT_EQ(round_trips[static_cast<std::size_t>(d)], 2 * (p - 1 - d) + m);
      }
      if (m < p) continue;
      const std::vector<double> never_drained = peaks_of(pipeline("2bw", p, m));
      for (int d = 0; d < p; ++d) EXPECT_EQ(never_drained[static_cast<std::size_t>(d)], p - d);
    }
  }
}

TEST(PeakActivations, CountTheExtraMicrobatchesOf2BWByTheirSlope) {
  EXPECT_THAT(peaks_of(pipeline("2bw", 4, 6, 3)), ElementsAre(7, 5, 3, 1));
}

TEST(PeakActivations, AreInUnitsOfADeviceWithSeveralStages) {
  EXPECT_THAT(peaks_of(pipeline("1f1b-v", 3, 4)), ElementsAre(2.5, 3.0, 3.0));
  // Copies of a stage are no chunks: a device holds a stage of each copy.
  EXPECT_THAT(peaks_of(pipeline("chimera", 4, 8)), ElementsAre(3.0, 4.0, 4.0, 3.0));
}

TEST(PeakActivations, ReleaseAtTheInputGradientWhatTheWeightGradientDoesNotNeed) {
  // By hand: f0 i0 w0 with half kept from i to w, and two forwards before: f0 f1 i0 f2 …
  ProgramParts parts = program_of(pipeline("gpipe", 1, 2)).parts();
  std::vector<Instruction> split;
  for (Instruction instruction : parts.instructions) {
    if (instruction.op.kind != OpKind::backward) {
      split.push_back(instruction);
      continue;
    }
    instruction.op.kind = OpKind::backward_input;
    split.push_back(instruction);
    instruction.op.kind = OpKind::backward_weight;
    split.push_back(instruction);
  }
  // f0 i0 f1 i1 w0 w1 U
  parts.instructions = {split[0], split[2], split[1], split[4], split[3], split[5], split[6]};
  const Program program(std::move(parts));
  EXPECT_THAT(peak_activations(program, 1.0).rows(), ElementsAre(2.0));
  EXPECT_THAT(peak_activations(program, 0.5).rows(), ElementsAre(1.5));
  EXPECT_THAT(peak_activations(program, 0.0).rows(), ElementsAre(1.0));
}

// ---- Slots ----

TEST(CountSlots, StashesWhatIsInFlight) {
  EXPECT_THAT(slots_of(pipeline("gpipe", 3, 5), SlotKind::stash), ElementsAre(5, 5, 5));
  Pipeline grouped = pipeline("gpipe", 3, 5);
  grouped.request.group = 2;
  EXPECT_THAT(slots_of(grouped, SlotKind::stash), ElementsAre(2, 2, 2));
  EXPECT_THAT(slots_of(pipeline("1f1b", 4, 8), SlotKind::stash), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(slots_of(pipeline("1f1b", 4, 2), SlotKind::stash), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(slots_of(pipeline("2bw", 4, 4), SlotKind::stash), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(slots_of(pipeline("2bw", 4, 6, 3), SlotKind::stash), ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(slots_of(pipeline("model-parallel", 3, 4), SlotKind::stash), ElementsAre(1, 1, 1));
}

// What is in flight on a device of Megatron's interleaving: what it runs before its first backward,
// and one.
TEST(StashPools, OfChunksHoldWhatIsInFlightOfThemTogether) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      Pipeline wanted = pipeline("interleaved", p, 4 * p);
      wanted.request.chunks = static_cast<std::uint16_t>(v);
      const Program program = program_of(wanted);
      const SlotCounts slots = count_slots(program);
      const auto pools =
          stash_pools(program, slots,
                      Table<ReplicaId, StashPieces>(slots.size(), {.stash = {{10, 2}, {7, 1}}}));
      for (int d = 0; d < p; ++d) {
        const Pieces& pool = pools[id_at<DeviceId>(static_cast<std::size_t>(d))];
        EXPECT_EQ(pool.at(7), 2 * (p - 1 - d) + (v - 1) * p + 1) << p << " " << v << " " << d;
        EXPECT_EQ(pool.at(10), 2 * pool.at(7));
      }
      std::int64_t apart = 0;  // of the first device's chunks, each for itself
      for (const ReplicaId replica : program.placement().replicas_on(DeviceId{0}))
        apart += slots[replica][SlotKind::stash];
      EXPECT_GT(apart, pools[DeviceId{0}].at(7));
    }
  }
}

TEST(StashPools, AreByTheSizesOfPieces) {
  Pipeline wanted = pipeline("interleaved", 2, 8);
  wanted.request.chunks = 2;
  const Program program = program_of(wanted);
  const SlotCounts slots = count_slots(program);
  const auto pools = stash_pools(
      program, slots,
      Table<ReplicaId, StashPieces>{
          {.stash = {{10, 1}}}, {.stash = {{10, 1}}}, {.stash = {{10, 3}}}, {.stash = {{20, 1}}}});
  const Pieces& first = pools[DeviceId{0}];
  EXPECT_EQ(first.size(), 1U);
  EXPECT_GE(first.at(10), 3 * slots[ReplicaId{2}][SlotKind::stash]);
  EXPECT_LE(first.at(10),
            slots[ReplicaId{0}][SlotKind::stash] + 3 * slots[ReplicaId{2}][SlotKind::stash]);
  EXPECT_EQ(pools[DeviceId{1}].at(10), slots[ReplicaId{1}][SlotKind::stash]);
  EXPECT_EQ(pools[DeviceId{1}].at(20), slots[ReplicaId{3}][SlotKind::stash]);
}

TEST(CountSlots, EqualsThePeakOfActivationsInALine) {
  for (const char* name : {"model-parallel", "gpipe", "1f1b", "1f1b-eager", "2bw"}) {
    for (const Pipeline& wanted : every_pipeline(name, {1, 2, 4, 5}, {1, 2, 4, 6, 9})) {
      if (wanted.request.recompute == Recompute::stage) continue;
      const std::vector<double> peaks = peaks_of(wanted);
      const std::vector<std::int32_t> stashes = slots_of(wanted, SlotKind::stash);
      for (std::size_t d = 0; d < peaks.size(); ++d) {
        EXPECT_EQ(stashes[d], peaks[d]) << wanted.name() << " device " << d;
      }
    }
  }
}

TEST(CountSlots, KeepsOneStashWhenItRecomputesButAllInputs) {
  const Pipeline wanted = recomputing(pipeline("2bw", 4, 4));
  EXPECT_THAT(slots_of(wanted, SlotKind::stash), Each(1));
  EXPECT_THAT(slots_of(wanted, SlotKind::input), ElementsAre(0, 4, 3, 2));
}

TEST(CountSlots, KeepsTwoVersionsIn2BWAndOneWithAFlush) {
  for (const int p : {1, 2, 5}) {
    EXPECT_THAT(slots_of(pipeline("2bw", p, 8), SlotKind::weights), Each(2));
    EXPECT_THAT(slots_of(pipeline("1f1b", p, 8), SlotKind::weights), Each(1));
    EXPECT_THAT(slots_of(pipeline("gpipe", p, 8), SlotKind::weights), Each(1));
  }
}

TEST(CountSlots, KeepsTwoVersionsIn2BWAlsoWhereALateUpdateFindsNoReaderOfTheOldOne) {
  // On the last stage a batch is done before the update of the one before it. But a run that pauses
  // there, updates done, goes on with a batch that reads the old version.
  EXPECT_THAT(slots_of(normed(pipeline("2bw", 4, 6)), SlotKind::weights), Each(2));
}

TEST(CountSlots, KeepsTheVersionsThatPipeDreamStashes) {
  Pipeline wanted = pipeline("pipedream", 4, 4);
  EXPECT_THAT(slots_of(wanted, SlotKind::weights), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(slots_of(wanted, SlotKind::stash), ElementsAre(4, 3, 2, 1));
  wanted.request.vertical_sync = true;
  EXPECT_THAT(slots_of(wanted, SlotKind::weights), Each(4));
}

TEST(CountSlots, KeepsTheVersionsThatPaciWouldReadAfterAPause) {
  // Without pauses one is enough: nobody reads a version once a newer one is there. A run that
  // drains, its updates done, goes on with forwards that read older ones.
  EXPECT_THAT(slots_of(pipeline("paci", 4, 1), SlotKind::weights), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(slots_of(pipeline("paci", 4, 2), SlotKind::weights), ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(slots_of(pipeline("paci", 4, 3), SlotKind::weights), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(slots_of(pipeline("paci", 4, 8), SlotKind::weights), ElementsAre(2, 2, 2, 1));
}

TEST(CountSlots, KeepsOnEveryStageTheVersionsThatTimeprestReadsOnTheFirst) {
  EXPECT_THAT(slots_of(pipeline("timeprest", 3, 2), SlotKind::weights), Each(3));
  EXPECT_THAT(slots_of(pipeline("timeprest", 4, 4), SlotKind::weights), Each(3));
  EXPECT_THAT(slots_of(pipeline("timeprest", 4, 6), SlotKind::weights), Each(2));
  EXPECT_THAT(slots_of(pipeline("timeprest", 4, 4), SlotKind::stash), ElementsAre(10, 8, 6, 4));
}

TEST(CountSlots, KeepsTheMixThatTimeprestIReadsBesideThoseVersions) {
  for (const auto& [p, m] : {std::pair{3, 2}, {4, 4}, {4, 6}}) {
    const auto mixed = pipeline("timeprest-i", p, m), plain = pipeline("timeprest", p, m);
    EXPECT_EQ(slots_of(mixed, SlotKind::weights), slots_of(plain, SlotKind::weights));
    EXPECT_THAT(slots_of(mixed, SlotKind::backward_weights), Each(1));
    EXPECT_THAT(slots_of(plain, SlotKind::backward_weights), Each(0));
  }
  EXPECT_THAT(slots_of(pipeline("timeprest-i", 1, 2), SlotKind::backward_weights), Each(0));
}

TEST(CountSlots, KeepsOneCorrectedVersionWhereBackwardsReadIt) {
  for (const std::int32_t m : {1, 2, 8}) {
    const Pipeline wanted = pipeline("pipemare", 4, m);
    EXPECT_THAT(slots_of(wanted, SlotKind::backward_weights), ElementsAre(1, 1, 1, 0));
    EXPECT_EQ(slots_of(wanted, SlotKind::weights),
              slots_of(pipeline("paci", 4, m), SlotKind::weights));
    EXPECT_THAT(slots_of(pipeline("paci", 4, m), SlotKind::backward_weights), Each(0));
  }
}

TEST(MemoryByClass, CountsACorrectedVersionAndWhatItIsMadeFrom) {
  const Program program = program_of(pipeline("pipemare", 2, 2));
  Table<ReplicaId, StageBytes> bytes(2);
  for (StageBytes& of : bytes) {
    of[SlotKind::weights] = of[SlotKind::backward_weights] = 1000;
    of.optimizer = 2000;
    of.drift = 4000;
  }
  const auto memory = memory_by_class(program, count_slots(program), bytes);
  EXPECT_EQ(memory[DeviceId{0}].weights, 1000);
  EXPECT_EQ(memory[DeviceId{0}].versions, 1000 + 1000);
  EXPECT_EQ(memory[DeviceId{0}].optimizer, 2000 + 4000);
  EXPECT_EQ(memory[DeviceId{1}].versions, 0);
  EXPECT_EQ(memory[DeviceId{1}].optimizer, 2000);
}

TEST(CountSlots, SumsIntoOneGradientWithoutSumsOverDevices) {
  for (const char* name : {"model-parallel", "gpipe", "1f1b", "2bw", "paci"}) {
    for (const int p : {1, 2, 4}) {
      EXPECT_THAT(slots_of(pipeline(name, p, 6), SlotKind::gradients), Each(1)) << name;
    }
  }
}

TEST(CountSlots, SumsIntoTwoGradientsIn2BWWhereASumHidesBehindTheNextBatch) {
  // An update that awaits others stands behind the backwards of the next batch. So two slots, and
  // only on the stages that sum: first and last when embeddings are tied, all when the pipeline has
  // width, or updates wait for the norm of all gradients.
  EXPECT_THAT(slots_of(tied(pipeline("2bw", 4, 6)), SlotKind::gradients), ElementsAre(2, 1, 1, 2));
  EXPECT_THAT(slots_of(tied(pipeline("2bw", 2, 2)), SlotKind::gradients), ElementsAre(2, 2));
  EXPECT_THAT(slots_of(wide(pipeline("2bw", 4, 6)), SlotKind::gradients), Each(2));
  EXPECT_THAT(slots_of(wide(pipeline("2bw", 1, 1)), SlotKind::gradients), Each(2));
  EXPECT_THAT(slots_of(normed(pipeline("2bw", 4, 6)), SlotKind::gradients), Each(2));
  EXPECT_THAT(slots_of(normed(pipeline("2bw", 1, 4)), SlotKind::gradients), Each(1));
}

TEST(CountSlots, SumsIntoOneGradientWithAFlushEvenBehindASum) {
  // The next batch's first forward waits for the update already.
  for (const char* name : {"gpipe", "1f1b"}) {
    EXPECT_THAT(slots_of(tied(pipeline(name, 4, 6)), SlotKind::gradients), Each(1));
    EXPECT_THAT(slots_of(wide(pipeline(name, 4, 6)), SlotKind::gradients), Each(1));
    EXPECT_THAT(slots_of(normed(pipeline(name, 4, 6)), SlotKind::gradients), Each(1));
  }
}

TEST(CountSlots, HasNoSlotsForWhatTheEndsOfAPipelineNeverSee) {
  const SlotCounts slots = count_slots(program_of(pipeline("1f1b", 3, 4)));
  const StageSlots& first = slots[ReplicaId{0}];
  EXPECT_EQ(first[SlotKind::input], 0);
  EXPECT_EQ(first[SlotKind::input_gradient], 0);
  const StageSlots& last = slots[ReplicaId{2}];
  EXPECT_EQ(last[SlotKind::output], 0);
}

/// A slot for what a stage hands down also takes what comes back for it, and what it hands up then:
/// until that is known to be taken. Where one stage is above another on a device, a reader of the
/// output may come later; where a backward is split, its weight half reads the gradient still.
TEST(CountSlots, AWholeBackwardMakesItsGradientInTheSlotOfItsOutput) {
  const auto counts = [](const char* schedule, SlotKind kind) {
    return slots_of(pipeline(schedule, 4, 8), kind);
  };
  EXPECT_THAT(counts("1f1b", SlotKind::output), ElementsAre(4, 4, 3, 0));
  EXPECT_THAT(counts("1f1b", SlotKind::input_gradient), ElementsAre(0, 0, 0, 2));
  EXPECT_THAT(counts("zb-h1", SlotKind::output), ElementsAre(4, 4, 4, 0));
  EXPECT_THAT(counts("zb-h1", SlotKind::input_gradient),
              ElementsAre(0, ::testing::Gt(0), ::testing::Gt(0), ::testing::Gt(0)));
  const SlotCounts folded = count_slots(program_of(pipeline("1f1b-v", 2, 4)));
  EXPECT_EQ(folded[ReplicaId{0}][SlotKind::input_gradient], 0);
  EXPECT_GT(folded[ReplicaId{1}][SlotKind::input_gradient], 0);  // its consumer is on its device
  EXPECT_EQ(folded[ReplicaId{2}][SlotKind::input_gradient], 0);
}

class EverySchedulesSlots : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesSlots, AreEnoughAndHardlyMore) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {2, 4, 6})) {
    const Program program = program_of(wanted);
    if (program.size() > (kSanitized ? 90 : 150)) continue;  // what is least is searched for long
    const SlotCounts counted = count_slots(program), least = least_slots(program, 4);
    for (const ReplicaId replica : ids(counted)) {
      for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
        const std::int32_t few = least[replica].counts[kind],
                           enough = counted[replica].counts[kind];
        EXPECT_GE(enough, few) << wanted.name() << " " << name(static_cast<SlotKind>(kind));
        std::int32_t most = few + 1;
        // An output is held until its microbatch's backward. In a line its transfer can't be known
        // to have ended sooner; where devices have chunks, it can.
        const bool chunked = program.placement().replicas() > program.placement().devices;
        if (kind == index(SlotKind::output) && chunked)
          most = static_cast<std::int32_t>(wanted.request.units());
        // Tied sums, and chunks that go round, close a ring of devices: what is known of a
        // neighbour also comes round by devices that do not follow it. It matters where
        // updates are many, or weight gradients are late.
        const bool late =
            counted[replica][SlotKind::kept_gradients] > 0 || wanted.schedule == "pipedream";
        const bool ring = late && (wanted.request.tied_embeddings || chunked);
        if (ring) most = std::max(most, few + wanted.request.devices - 1);
        // Weight gradients of a batch at once give their slots back at once.
        const bool batched = wanted.schedule.starts_with("2bp");
        if (ring && batched) most = few + wanted.request.microbatches;
        if (ring && wanted.request.costs) ++most;  // later still, behind a slow stage
        // Slices go back in reverse: rings reach from the first that is held to the last.
        if (late) most += wanted.request.slices.count - 1;
        EXPECT_LE(enough, most) << wanted.name() << " " << name(static_cast<SlotKind>(kind));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesSlots, ::testing::ValuesIn(schedule_names()),
                         test_name);

// ---- Ranks and bytes ----

Pipeline two_one_one() {
  Pipeline wanted = pipeline("pipedream", 4, 4);
  wanted.request.replicas = {2, 1, 1};
  return wanted;
}

TEST(MicrobatchSequence, CountsTheMicrobatchesOfEachReplicaAlone) {
  const MicrobatchSequence sequence(program_of(two_one_one()));
  // Replicas 0 and 1 of the first stage take turns; the rest process all.
  EXPECT_EQ(sequence(ReplicaId{0}, 0), 0);
  EXPECT_EQ(sequence(ReplicaId{1}, 1), 0);
  EXPECT_EQ(sequence(ReplicaId{0}, 2), 1);
  EXPECT_EQ(sequence(ReplicaId{1}, 7), 3);
  EXPECT_EQ(sequence(ReplicaId{2}, 7), 7);
}

TEST(MicrobatchSequenceDeathTest, RefusesAMicrobatchOfAnotherReplica) {
  const MicrobatchSequence sequence(program_of(two_one_one()));
  EXPECT_DEATH(sequence(ReplicaId{0}, 1), "rank");
}

TEST(MemoryByClass, AddsSlotsUpByClassAndDevice) {
  const Program program = program_of(pipeline("2bw", 2, 2));
  StageBytes bytes;
  bytes[SlotKind::weights] = 1000;
  bytes[SlotKind::gradients] = 2000;
  bytes[SlotKind::stash] = 30;
  bytes[SlotKind::input] = 4;
  bytes[SlotKind::output] = 5;
  bytes[SlotKind::input_gradient] = 7;
  bytes.optimizer = 50'000;
  bytes.workspace = 100;
  const SlotCounts slots = count_slots(program);
  const auto memory = memory_by_class(program, slots, Table<ReplicaId, StageBytes>(2, bytes));
  const MemoryByClass& first = memory[DeviceId{0}];
  EXPECT_EQ(first.weights, 1000);
  EXPECT_EQ(first.versions, 1000);
  EXPECT_EQ(first.gradients, 2000);
  EXPECT_EQ(first.optimizer, 50'000);
  EXPECT_EQ(first.activations, 2 * 30);
  const StageSlots& of = slots[ReplicaId{0}];
  EXPECT_EQ(first.buffers, of[SlotKind::output] * 5 + 100);
  EXPECT_EQ(first.total(), 1000 + 1000 + 2000 + 50'000 + 60 + first.buffers);
}

TEST(MemoryByClass, SharesTheLargestWorkspaceOfADevice) {
  const Program program = program_of(pipeline("1f1b-v", 1, 1));
  Table<ReplicaId, StageBytes> bytes(2);
  bytes[ReplicaId{0}].workspace = 70;
  bytes[ReplicaId{1}].workspace = 90;
  bytes[ReplicaId{0}].optimizer = 1;
  bytes[ReplicaId{1}].optimizer = 2;
  const auto memory = memory_by_class(program, count_slots(program), bytes);
  EXPECT_EQ(memory[DeviceId{0}].buffers, 90);
  EXPECT_EQ(memory[DeviceId{0}].optimizer, 3);
}

}  // namespace
}  // namespace tandem::testing
