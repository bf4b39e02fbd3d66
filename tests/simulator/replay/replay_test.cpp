// Recordings whose phases have closed forms, replayed as they were and as they could have been; and
// our own simulations, recorded and replayed.

#include "simulator/replay/replay.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/lower/lower.h"
#include "core/verify/verify.h"
#include "tests/core/error_of.h"
#include "tests/support/megatron_pipeline.h"
#include "tests/support/recordings.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Durations = ReplayVariation::Durations;

Duration replayed(const RecordedPass& pass, std::optional<RecordedTransfers> transfers = {}) {
  return Replay(recording_of({pass}), transfers).steps().front().replayed;
}

TEST(Replay, OfBlockingTransfersIsExact) {
  EXPECT_EQ(two_stages_phase({}), ms(93));
  for (const TwoStages& costs : {TwoStages{}, kSlowSecond, TwoStages{.transfer = {}},
                                 TwoStages{.forward = {ms(30), ms(7)}, .transfer = ms(5)}}) {
    const Replay replay(recording_of({two_stages(costs)}));
    EXPECT_EQ(replay.transfers(), RecordedTransfers::blocking);
    EXPECT_THAT(replay.warnings(), IsEmpty());
    const ReplayedStep step = replay.steps().front();
    EXPECT_EQ(step.measured, two_stages_phase(costs));
    EXPECT_EQ(step.replayed, step.measured);
    EXPECT_EQ(step.error(), 0.0);
    EXPECT_EQ(step.whole, ms(200));
    EXPECT_THAT(verify(replay.pass(0).program), IsEmpty());
  }
}

/// By hand: 20 for two forwards, … of the second device 10 + 1 + (10 + 20) · 2, and back.
TEST(Replay, OfOtherTransfersEndsSooner) {
  EXPECT_EQ(replayed(two_stages({}), RecordedTransfers::overlapped), ms(92));
  EXPECT_EQ(replayed(two_stages({}), RecordedTransfers::none), ms(90));
}

TEST(Replay, SeesTransfersThatOverlapComputation) {
  RecordedPass pass = two_stages({});
  EXPECT_EQ(seen_transfers(recording_of({pass})), RecordedTransfers::blocking);
  for (std::vector<RecordedOp>& ops : pass.devices) {
    for (RecordedOp& op : ops) {
      if (is_transfer(op.kind)) op.start -= ms(5), op.end += ms(5);
    }
  }
  sort_by_end(pass);
  EXPECT_EQ(seen_transfers(recording_of({pass})), RecordedTransfers::overlapped);
}

TEST(Replay, TakesNoClockOfAnotherRankForGranted) {
  RecordedPass pass = two_stages(kSlowSecond);
  for (RecordedOp& op : pass.devices[DeviceId{1}]) op.start += ms(3), op.end += ms(3);
  EXPECT_EQ(replayed(pass), two_stages_phase(kSlowSecond));
}

TEST(Replay, KeepsThePausesOfARank) {
  RecordedPass pass = two_stages({});
  for (std::vector<RecordedOp>& ops : pass.devices) {
    for (RecordedOp& op : ops) {
      if (op.start >= ms(52)) op.start += ms(4), op.end += ms(4);
    }
  }
  EXPECT_EQ(replayed(pass), ms(97));
  EXPECT_EQ(Replay(recording_of({pass}), {}, false).steps().front().replayed, ms(93));
  EXPECT_EQ(replayed(pass, RecordedTransfers::overlapped), ms(92));
}

/// Some recorders write down sends and receives of ranks that have nobody to talk to.
TEST(Replay, PassesOverTransfersThatWereNone) {
  RecordedPass pass = two_stages({});
  const auto add = [&](DeviceId device, OpKind kind, bool receives, std::int64_t at) {
    pass.devices[device].push_back(
        {.kind = kind, .receives = receives, .start = ms(at), .end = ms(at)});
  };
  for (const std::int64_t at : {0, 11}) add(DeviceId{0}, OpKind::send_activation, true, at);
  for (const std::int64_t at : {21, 52}) add(DeviceId{1}, OpKind::send_gradient, true, at);
  add(DeviceId{1}, OpKind::send_activation, false, 52);
  add(DeviceId{1}, OpKind::send_gradient, false, 5);
  add(DeviceId{0}, OpKind::send_gradient, true, 95);
  sort_by_end(pass);
  const Replay replay(recording_of({pass}));
  EXPECT_EQ(replay.steps().front().replayed, ms(93));
  EXPECT_THAT(replay.warnings(), IsEmpty());
}

/// Where no more ends were recorded than transfers, none is passed over, however late it was seen.
TEST(Replay, KeepsEndsThatWereSeenLate) {
  RecordedPass pass = two_stages({});
  for (std::vector<RecordedOp>& ops : pass.devices) {
    for (RecordedOp& op : ops) {
      if (is_transfer(op.kind) && op.receives) op.end += ms(2);
    }
  }
  sort_by_end(pass);
  const Replay replay(recording_of({pass}), RecordedTransfers::overlapped);
  EXPECT_EQ(replay.pass(0).transfers, RecordedTransfers::overlapped);
  EXPECT_THAT(replay.warnings(), IsEmpty());
}

TEST(Replay, CountsMicrobatchesByTheirOrderWhereTheyHaveNoNumbers) {
  RecordedPass pass = two_stages({});
  for (std::vector<RecordedOp>& ops : pass.devices) {
    for (RecordedOp& op : ops) op.microbatch = -1;
  }
  EXPECT_EQ(replayed(pass), ms(93));
  for (RecordedOp& op : pass.devices[DeviceId{1}]) op.microbatch = 7;
  EXPECT_EQ(replayed(pass), ms(93));
}

TEST(Replay, BridgesTransfersThatWereNotAllRecorded) {
  RecordedPass pass = two_stages({});
  std::vector<RecordedOp>& ops = pass.devices[DeviceId{1}];
  ops.erase(std::find_if(ops.begin(), ops.end(), [](const RecordedOp& op) { return op.receives; }));
  const Replay replay(recording_of({pass}));
  EXPECT_EQ(replay.pass(0).transfers, RecordedTransfers::none);
  EXPECT_EQ(replay.steps().front().replayed, ms(90));
  EXPECT_THAT(replay.warnings(), ElementsAre(HasSubstr("1 of 1 steps of replicas are replayed "
                                                       "with other transfers than blocking")));
}

TEST(Replay, LeavesOutPassesThatAreNotWhole) {
  RecordedPass partial = two_stages({}, 1);
  partial.devices[DeviceId{1}].pop_back();
  partial.devices[DeviceId{1}].pop_back();
  const Replay replay(recording_of({two_stages({}, 0), partial}));
  ASSERT_EQ(replay.steps().size(), 1u);
  EXPECT_THAT(replay.warnings(),
              ElementsAre("1 of 2 steps of replicas are left out, the first for this: step 1, "
                          "replica 0: stage 1 has 1 backwards, stage 0 has 2 forwards"));
  EXPECT_THAT(error_of([&] { Replay(recording_of({partial})); }),
              HasSubstr("no step of any replica is a whole pipeline: step 1, replica 0: "));
}

TEST(Replay, RefusesAnOrderThatCannotBe) {
  RecordedPass pass = two_stages({});
  std::vector<RecordedOp>& ops = pass.devices[DeviceId{1}];
  std::reverse(ops.begin(), ops.end());
  EXPECT_THAT(error_of([&] { Replay(recording_of({pass})); }),
              HasSubstr("no step of any replica is a whole pipeline"));
}

TEST(Replay, MixesReplicasByWhenTheyBegan) {
  const Recording recording =
      recording_of({two_stages({}, 4, 0), two_stages({}, 4, 1, ms(7)), two_stages({}, 5, 0)});
  const std::vector<ReplayedStep> steps = Replay(recording).steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, 4);
  EXPECT_EQ(steps[0].measured, ms(100));
  EXPECT_EQ(steps[0].replayed, ms(100));
  EXPECT_EQ(steps[1].measured, ms(93));
}

struct MegatronShape {
  std::size_t stages;
  std::int64_t microbatches;
};

class MegatronReplay : public ::testing::TestWithParam<MegatronShape> {
 protected:
  /// Every op and transfer of its own length; stage 1 slow in replica 1.
  static MegatronCosts costs(std::int64_t step, std::int64_t replica) {
    return [step, replica](OpKind kind, std::size_t stage, std::int64_t microbatch) {
      const auto place =
          static_cast<std::uint64_t>(((step * 7 + replica) * 100 + microbatch) * 100);
      const std::uint64_t bits = split_mix((place + stage) * kOpKinds + index(kind) + 1);
      const Duration noise(static_cast<std::int64_t>(bits % 3'000'000));
      if (is_transfer(kind)) return Duration(400'000) + noise / 10;
      const Duration usual = kind == OpKind::forward ? ms(40) : ms(81);
      return (replica == 1 && stage == 1 ? usual * 3 / 2 : usual) + noise;
    };
  }

  static Duration phase(MegatronCosts costs) {
    return phase_of(
        MegatronPipeline(GetParam().stages, GetParam().microbatches, std::move(costs)).run());
  }
};

/// What a pass's ops take with other durations.
MegatronCosts varied(const Replay& replay, std::size_t pass, Durations durations) {
  std::map<std::tuple<OpKind, std::size_t, std::int64_t>, Duration> times;
  const CostTable costs = replay.costs(pass, {.durations = durations});
  for (const Instruction& instruction : replay.pass(pass).program.instructions()) {
    const Op& op = instruction.op;
    times[{op.kind, index(op.replica), op.microbatch}] = costs[instruction.cost];
  }
  return [times = std::move(times)](OpKind kind, std::size_t stage, std::int64_t microbatch) {
    return times.at({kind, stage, microbatch});
  };
}

/// The ranks' own program, which shares nothing with the replay, says what comes out: as it was,
/// and with other durations.
TEST_P(MegatronReplay, IsExact) {
  std::vector<RecordedPass> passes;
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t replica = 0; replica < 2; ++replica) {
      MegatronPipeline pipeline(GetParam().stages, GetParam().microbatches, costs(step, replica));
      passes.push_back(pipeline.run(step, replica, ms(1000 * step)));
    }
  }
  const Replay replay(recording_of(std::move(passes)));
  EXPECT_EQ(replay.transfers(), RecordedTransfers::blocking);
  EXPECT_THAT(replay.warnings(), IsEmpty());
  for (const ReplayedStep& step : replay.steps()) {
    EXPECT_EQ(step.measured, std::max(phase(costs(step.step, 0)), phase(costs(step.step, 1))));
    EXPECT_EQ(step.replayed, step.measured);
  }
  for (const Durations durations : {Durations::usual, Durations::balanced}) {
    const std::vector<Duration> phases = replay.phases({.durations = durations});
    for (std::size_t pass = 0; pass < replay.passes(); pass += 2) {
      EXPECT_EQ(phases[pass / 2], std::max(phase(varied(replay, pass, durations)),
                                           phase(varied(replay, pass + 1, durations))));
    }
    EXPECT_LT(phases.front(), replay.steps().front().measured);
  }
}

/// Before computation and before transfers, of which only the rank that comes later holds up both.
TEST_P(MegatronReplay, CountsWhatHostsPause) {
  const auto pauses = [](std::size_t stage, std::size_t done) {
    return Duration(static_cast<std::int64_t>(split_mix(stage * 1000 + done + 1) % 5'000'000));
  };
  MegatronPipeline pipeline(GetParam().stages, GetParam().microbatches, costs(0, 0), pauses);
  const RecordedPass pass = pipeline.run();
  EXPECT_GT(phase_of(pass), phase(costs(0, 0)));
  EXPECT_EQ(replayed(pass), phase_of(pass));
  EXPECT_LT(Replay(recording_of({pass}), {}, false).steps().front().replayed, phase_of(pass));
}

/// Of a transfer that begins by one rank's clock and ends by another's it is told which rank came
/// later.
TEST_P(MegatronReplay, NeedsNoCommonClock) {
  const auto run = [](const std::vector<Duration>& ahead) {
    return MegatronPipeline(GetParam().stages, GetParam().microbatches, costs(0, 1))
        .run(0, 1, {}, ahead);
  };
  const RecordedPass good = run({});
  for (const Duration unit : {ms(1), ms(-3), ms(17), ms(-40)}) {
    std::vector<Duration> ahead(GetParam().stages);
    for (std::size_t stage = 0; stage < ahead.size(); ++stage) {
      ahead[stage] = unit * static_cast<std::int64_t>((3 * stage) % 5);
    }
    const RecordedPass pass = run(ahead);
    const Replay replay(recording_of({pass}));
    EXPECT_THAT(replay.warnings(), IsEmpty());
    EXPECT_EQ(replay.steps().front().replayed, phase_of(good)) << print_duration(unit);
    EXPECT_EQ(replay.steps().front().measured, phase_of(good)) << print_duration(unit);
  }
}

/// The shapes of the published trials, and larger ones.
INSTANTIATE_TEST_SUITE_P(Shapes, MegatronReplay,
                         ::testing::Values(MegatronShape{2, 12}, MegatronShape{4, 4},
                                           MegatronShape{4, 32}, MegatronShape{8, 16},
                                           MegatronShape{6, 3}, MegatronShape{5, 1}));

TEST(ReplayVariation, WithoutStragglersEachOpTakesTheMean) {
  std::vector<RecordedPass> passes;
  for (std::int64_t step = 0; step < 3; ++step) {
    passes.push_back(two_stages(step == 1 ? kSlowSecond : TwoStages{}, step));
  }
  const Replay replay(recording_of(std::move(passes)));
  const Duration slow = two_stages_phase(kSlowSecond), mean = two_stages_phase(kAThirdSlow);
  EXPECT_THAT(replay.phases({}), ElementsAre(ms(93), slow, ms(93)));
  EXPECT_THAT(replay.phases({.durations = Durations::usual}), ElementsAre(mean, mean, mean));
  EXPECT_EQ(replay.usual(OpKind::forward, ReplicaId{1}), ms(40) / 3);
  EXPECT_EQ(replay.content_variation(), 0.0);
}

/// What both stages take longer for is in the microbatch, not in them.
TEST(ReplayVariation, ContentIsNoStraggler) {
  constexpr TwoStages kLonger{.forward = {ms(15), ms(15)}, .backward = {ms(30), ms(30)}};
  std::vector<RecordedPass> passes;
  for (std::int64_t step = 0; step < 4; ++step) {
    passes.push_back(two_stages(step == 1 ? kLonger : TwoStages{}, step));
  }
  const Replay replay(recording_of(std::move(passes)));
  EXPECT_EQ(replay.phases({.durations = Durations::usual}), replay.phases({}));
  EXPECT_NEAR(replay.content_variation(), 0.1925, 1e-4);  // of 8/9 three times, 4/3 once
}

/// Whatever the durations, a step without stragglers lasts as long as its busiest stage computes in
/// the mean; medians of these would not.
TEST(ReplayVariation, WithoutStragglersAStageHasAsMuchToCompute) {
  std::uint64_t draws = 0;
  std::vector<RecordedPass> passes;
  const auto skewed = [&](std::int64_t usually) {
    return ms(split_mix(++draws) % 4 == 0 ? 9 * usually : usually);
  };
  for (std::int64_t step = 0; step < 16; ++step) {
    passes.push_back(two_stages(
        {.forward = {skewed(10), skewed(12)}, .backward = {skewed(20), skewed(24)}}, step));
  }
  const Replay replay(recording_of(std::move(passes)));
  Duration phases{}, measured[2]{}, usual[2]{};
  for (const Duration phase : replay.phases({.durations = Durations::usual})) phases += phase;
  for (std::size_t pass = 0; pass < replay.passes(); ++pass) {
    const Program& program = replay.pass(pass).program;
    const CostTable costs = replay.costs(pass, {.durations = Durations::usual});
    for (const Instruction& instruction : program.instructions()) {
      if (!is_compute(instruction.op.kind)) continue;
      measured[index(instruction.op.replica)] += replay.pass(pass).costs[instruction.cost];
      usual[index(instruction.op.replica)] += costs[instruction.cost];
    }
  }
  for (int stage = 0; stage < 2; ++stage) {
    EXPECT_NEAR(to_seconds(usual[stage]), to_seconds(measured[stage]), 1e-6);
    EXPECT_GE(phases, measured[stage]);
  }
}

TEST(ReplayVariation, ASlowStageIsMendedByTheOthersOrSharedOut) {
  const Replay replay(recording_of({two_stages(kSlowSecond)}));
  const Duration slow = two_stages_phase(kSlowSecond);
  const Duration even =
      two_stages_phase({.forward = {ms(15), ms(15)}, .backward = {ms(30), ms(30)}});
  EXPECT_THAT(replay.phases({.durations = Durations::usual}), ElementsAre(slow));
  EXPECT_THAT(replay.phases({.durations = Durations::balanced}), ElementsAre(even));
  EXPECT_THAT(replay.phases({.without = {{.device = DeviceId{1}, .replica = {}}}}),
              ElementsAre(ms(93)));
  const Duration both_slow =
      two_stages_phase({.forward = {ms(20), ms(20)}, .backward = {ms(40), ms(40)}});
  EXPECT_THAT(replay.phases({.without = {{.device = DeviceId{0}, .replica = {}}}}),
              ElementsAre(both_slow));
}

TEST(ReplayVariation, ASlowRankIsMendedByItsReplicas) {
  const Replay replay(
      recording_of({two_stages({}, 0, 0), two_stages(kSlowSecond, 0, 1), two_stages({}, 0, 2)}));
  const Duration slow = two_stages_phase(kSlowSecond);
  const auto phase = [&](Straggler straggler) {
    return replay.phases({.without = {straggler}}).front();
  };
  EXPECT_EQ(replay.phases({}).front(), slow);
  EXPECT_EQ(phase({.device = DeviceId{1}, .replica = 1}), ms(93));
  EXPECT_EQ(phase({.device = {}, .replica = 1}), ms(93));
  EXPECT_EQ(phase({.device = DeviceId{0}, .replica = 1}), slow);
  EXPECT_EQ(phase({.device = {}, .replica = 0}), slow);
  EXPECT_EQ(replay.phases({.durations = Durations::usual}).front(), two_stages_phase(kAThirdSlow));
}

/// All but the updates, which are not recorded.
std::vector<std::vector<Op>> work_of(const Schedule& schedule) {
  std::vector<std::vector<Op>> work = schedule.order.rows();
  for (std::vector<Op>& order : work) {
    std::erase_if(order, [](const Op& op) { return op.kind == OpKind::update; });
  }
  return work;
}

struct Recorded {
  std::string schedule;
  std::uint16_t devices, chunks;
  bool wave = false;
  bool numbered = false;  // transfers
};

class OwnSimulation : public ::testing::TestWithParam<Recorded> {};

/// What the simulator made of a schedule, recorded and replayed, is what it was.
TEST_P(OwnSimulation, IsReplayedToTheNanosecond) {
  ScheduleRequest request;
  request.devices = GetParam().devices;
  request.chunks = GetParam().chunks;
  request.microbatches = 8;
  const Schedule schedule = make_schedule(find_schedule(GetParam().schedule), request);
  const Program program = lower(schedule, TransferLanes::ideal);
  const CostTable costs = price(program, [](const CostKey& key) {
    if (is_optimizer(key.kind)) return Duration{};
    return ms(3) + Duration(7'001 * static_cast<std::int64_t>(index(key.replica)) +
                            1'000'003 * static_cast<std::int64_t>(index(key.kind)));
  });
  Timeline timeline;
  const Duration length = replayed_length(program, costs, &timeline);
  Recording recording =
      recording_of({pass_of(program, timeline, GetParam().numbered)}, GetParam().chunks);
  recording.wave = GetParam().wave;
  const Replay replay(recording, RecordedTransfers::overlapped);
  EXPECT_THAT(replay.warnings(), IsEmpty());
  EXPECT_EQ(replay.steps().front().measured, length);
  EXPECT_EQ(replay.steps().front().replayed, length);
  EXPECT_EQ(work_of(replay.pass(0).schedule), work_of(schedule));
  EXPECT_THAT(verify(replay.pass(0).program), IsEmpty());
  EXPECT_LT(Replay(recording, RecordedTransfers::none).steps().front().replayed, length);
}

TEST(Replay, OfHalvesThatDoNotFitIsRefused) {
  const auto pass_with = [](const std::vector<std::pair<OpKind, std::int64_t>>& ops) {
    RecordedPass pass;
    pass.devices.resize(1);
    for (const auto& [kind, microbatch] : ops) {
      const Duration start = ms(static_cast<std::int64_t>(pass.devices[DeviceId{0}].size()));
      pass.devices[DeviceId{0}].push_back(
          {.kind = kind, .microbatch = microbatch, .start = start, .end = start + ms(1)});
    }
    return recording_of({pass});
  };
  constexpr auto kForward = OpKind::forward, kInput = OpKind::backward_input,
                 kWeight = OpKind::backward_weight, kWhole = OpKind::backward;
  for (const std::int64_t first : {0, -1}) {  // numbered or not
    const std::int64_t second = first < 0 ? -1 : 1;
    const auto error = [&](const Recording& recording) {
      return error_of([&] { Replay{recording}; });
    };
    const Recording good = pass_with({{kForward, first},
                                      {kForward, second},
                                      {kWhole, first},
                                      {kInput, second},
                                      {kWeight, second}});
    EXPECT_EQ(Replay(good).steps().front().replayed, ms(5));
    EXPECT_THAT(error(pass_with({{kForward, first}, {kInput, first}})),
                HasSubstr("stage 0 has input gradients without their weight gradients"));
    EXPECT_THAT(error(pass_with({{kForward, first}, {kWhole, first}, {kWeight, first}})),
                HasSubstr("stage 0 has a weight gradient without an input gradient before it"));
    EXPECT_NE(error(pass_with({{kForward, first}, {kWeight, first}, {kInput, first}})), "");
  }
  EXPECT_THAT(error_of([&] { Replay(pass_with({{kForward, 0}, {kInput, 0}, {kWeight, 3}})); }),
              HasSubstr("microbatch 3 has no forward"));
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, OwnSimulation,
    ::testing::Values(Recorded{"1f1b", 4, 1}, Recorded{"gpipe", 3, 1}, Recorded{"1f1b-eager", 4, 1},
                      Recorded{"interleaved", 4, 2}, Recorded{"interleaved", 2, 3},
                      Recorded{"looped-bfs", 2, 2}, Recorded{"zb-h1", 4, 1},
                      Recorded{"interleaved-zb", 4, 2},
                      Recorded{"interleaved-zb", 4, 2, false, true},
                      Recorded{"zbv", 4, 2, true, true}, Recorded{"zbv", 3, 2, true, true}));

}  // namespace
}  // namespace tandem::testing
