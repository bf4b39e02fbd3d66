#include "core/lower/lower.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/schedules/common.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<LaneId> lanes_of(const Program& program, InstructionId id) {
  const auto lanes = program.lanes(program[id]);
  return {lanes.begin(), lanes.end()};
}

bool share_a_lane(const Program& program, InstructionId a, InstructionId b) {
  for (const LaneId lane : lanes_of(program, a)) {
    const std::vector<LaneId> others = lanes_of(program, b);
    if (std::find(others.begin(), others.end(), lane) != others.end()) return true;
  }
  return false;
}

const Wait* wait_for(const Program& program, InstructionId id, OpKind producer) {
  for (const Wait& wait : program.waits(program[id])) {
    if (program[wait.producer].op.kind == producer) return &wait;
  }
  return nullptr;
}

InstructionId find(const Program& program, OpKind kind, ReplicaId replica, std::int32_t residue) {
  for (const InstructionId id : program.order()) {
    const Op& op = program[id].op;
    if (op.kind == kind && op.replica == replica &&
        op.microbatch % program.microbatches() == residue) {
      return id;
    }
  }
  ADD_FAILURE() << name(kind) << " " << residue << " of stage " << index(replica) << " is missing";
  return {};
}

// ---- What holds for every schedule ----

class EverySchedulesProgram : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Check>
  void for_each_program(Check check) {
    for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {1, 2, 4, 6})) {
      for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
        SCOPED_TRACE(wanted.name());
        check(program_of(wanted, lanes), lanes);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(EverySchedulesProgram, IsInTopologicalOrder) {
  for_each_program([](const Program& program, TransferLanes) {
    for (const InstructionId id : program.order()) {
      for (const Wait& wait : program.waits(program[id])) {
        if (wait.lag == 0) {
          EXPECT_LT(wait.producer, id);
        }
      }
    }
  });
}

TEST_P(EverySchedulesProgram, PutsEachTransferOnBothDevicesOrOnNone) {
  for_each_program([](const Program& program, TransferLanes transfer_lanes) {
    for (const InstructionId id : program.order()) {
      const OpKind kind = program[id].op.kind;
      if (!is_transfer(kind)) continue;
      const CostKey& key = program.cost_keys()[program[id].cost];
      EXPECT_NE(key.source, key.target);
      EXPECT_EQ(key.source, program.placement().device[program[id].op.replica]);
      const std::vector<LaneId> lanes = lanes_of(program, id);
      if (transfer_lanes == TransferLanes::ideal) {
        EXPECT_TRUE(lanes.empty());
        continue;
      }
      using enum LaneKind;
      const std::map<OpKind, std::array<LaneKind, 2>> ends{
          {OpKind::send_activation, {send_activation, receive_activation}},
          {OpKind::send_gradient, {send_gradient, receive_gradient}},
          {OpKind::evict, {send_stash, receive_stash}},
          {OpKind::load, {receive_stash, send_stash}}};
      ASSERT_EQ(lanes.size(), 2u);
      EXPECT_EQ(program.lanes()[lanes[0]], (Lane{key.source, ends.at(kind)[0], key.target}));
      EXPECT_EQ(program.lanes()[lanes[1]], (Lane{key.target, ends.at(kind)[1], key.source}));
      for (const DeviceId device : {key.source, key.target}) {
        const auto slice = program.on(device);
        EXPECT_EQ(std::count(slice.begin(), slice.end(), id), 1);
      }
    }
  });
}

TEST_P(EverySchedulesProgram, DropsWaitsThatALaneImplies) {
  for_each_program([](const Program& program, TransferLanes) {
    for (const InstructionId id : program.order()) {
      std::set<LaneId> producers;
      for (const Wait& wait : program.waits(program[id])) {
        EXPECT_FALSE(share_a_lane(program, id, wait.producer)) << describe(program, id);
        const std::vector<LaneId> lanes = lanes_of(program, wait.producer);
        if (lanes.empty()) continue;
        EXPECT_TRUE(producers.insert(lanes.front()).second)
            << describe(program, id) << " waits for two instructions of one lane";
      }
    }
  });
}

TEST_P(EverySchedulesProgram, LetsAUnitWaitAtItsFirstOpAndSendAfterItsLast) {
  for_each_program([](const Program& program, TransferLanes) {
    std::map<DeviceId, InstructionId> last;
    std::map<InstructionId, InstructionId> next;  // of a unit
    for (const InstructionId id : program.order()) {
      const Op& op = program[id].op;
      if (is_transfer(op.kind) || is_collective(op.kind)) continue;
      const auto [before, first] = last.try_emplace(program.placement().device[op.replica], id);
      const InstructionId other = std::exchange(before->second, id);
      const bool joins = !first && op.group != 0 && program[other].op.group == op.group;
      if (!joins) continue;
      next[other] = id;
      EXPECT_EQ(program.waits(program[id]).size(), 0u) << describe(program, id);
    }
    for (const InstructionId id : program.order()) {
      for (const Wait& wait : program.waits(program[id])) {
        EXPECT_FALSE(next.contains(wait.producer)) << describe(program, id);
      }
    }
  });
}

TEST_P(EverySchedulesProgram, AsksForEachPriceOnceAtTheDeviceOfItsStage) {
  for_each_program([](const Program& program, TransferLanes) {
    const std::set<CostKey> distinct(program.cost_keys().begin(), program.cost_keys().end());
    EXPECT_EQ(distinct.size(), program.cost_keys().size());
    for (const CostKey& key : program.cost_keys()) {
      EXPECT_EQ(key.source, program.placement().device[key.replica]);
      EXPECT_EQ(key.source == key.target, !is_transfer(key.kind));
    }
  });
}

TEST_P(EverySchedulesProgram, KeepsEachDevicesOrder) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4}, {2, 4, 6})) {
    const Schedule schedule = schedule_of(wanted);
    const Program program = lower(schedule);
    for (const DeviceId device : ids(schedule.order)) {
      std::vector<Op> expected, found;
      for (const Op& op : schedule.order[device]) {
        if (is_compute(op.kind)) expected.push_back(op);
      }
      for (const InstructionId id : program.on(device)) {
        if (is_compute(program[id].op.kind)) found.push_back(program[id].op);
      }
      EXPECT_EQ(found, expected) << wanted.name() << " device " << index(device);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesProgram, ::testing::ValuesIn(schedule_names()),
                         test_name);

// ---- Waits and lags ----

TEST(Lower, NeedsNoWaitsOnASingleDevice) {
  for (const char* name : {"model-parallel", "gpipe", "1f1b", "2bw"}) {
    const Program program = program_of(pipeline(name, 1, 4));
    for (const Instruction& instruction : program.instructions()) {
      EXPECT_EQ(instruction.wait_count, 0);
    }
    EXPECT_EQ(program.depth(), 1u);
  }
}

TEST(Lower, ReachesBackInto2BWsOtherBodies) {
  const Program program = program_of(pipeline("2bw", 4, 4));
  EXPECT_EQ(program.ramp(), 1);
  for (const std::size_t device : {1u, 2u, 3u}) {
    const ReplicaId replica = id_at<ReplicaId>(device), above = id_at<ReplicaId>(device - 1);
    for (std::int32_t residue = 0; residue < 4; ++residue) {
      const InstructionId forward = find(program, OpKind::forward, replica, residue);
      const Wait* wait = wait_for(program, forward, OpKind::send_activation);
      ASSERT_NE(wait, nullptr);
      const std::int32_t made =
          program[find(program, OpKind::forward, above, residue)].op.microbatch;
      EXPECT_EQ(static_cast<std::int32_t>(wait->lag), (made - program[forward].op.microbatch) / 4);
    }
  }
  // Stage 0 runs three microbatches ahead: its forward of residue 3 is in the loop's own batch, and
  // of residue 2 in the next; stage 1 runs two ahead.
  const auto lag = [&](std::int32_t residue) {
    const InstructionId forward = find(program, OpKind::forward, ReplicaId{1}, residue);
    return wait_for(program, forward, OpKind::send_activation)->lag;
  };
  EXPECT_EQ(lag(3), 0u);
  EXPECT_EQ(lag(2), 1u);
  EXPECT_EQ(lag(1), 0u);
}

/// The op before `id` on the compute lane of its device, over the end of the body.
InstructionId before_on_lane(const Program& program, InstructionId id) {
  const LaneId lane = lanes_of(program, id).front();
  std::vector<InstructionId> on_lane;
  for (const InstructionId each : program.order()) {
    const std::vector<LaneId> lanes = lanes_of(program, each);
    if (std::count(lanes.begin(), lanes.end(), lane) > 0) on_lane.push_back(each);
  }
  const auto found = std::find(on_lane.begin(), on_lane.end(), id);
  return found == on_lane.begin() ? on_lane.back() : *(found - 1);
}

TEST(Lower, LetsAForwardFindItsWeightsMadeByTheUpdateBeforeItOnItsLane) {
  // No wait is needed: updates are on the compute lane too.
  for (const char* name : {"gpipe", "1f1b", "1f1b-eager", "2bw", "interleaved"}) {
    for (const Pipeline& wanted : every_pipeline(name, {3}, {4})) {
      const Program program = program_of(wanted);
      for (const InstructionId id : program.order()) {
        EXPECT_EQ(wait_for(program, id, OpKind::update), nullptr) << wanted.name();
      }
    }
  }
}

TEST(Lower, Puts2BWsUpdateRightBeforeItsFirstReaderWhereItAwaitsOthers) {
  for (const int p : {1, 2, 3, 5}) {
    for (const std::int32_t m : {p, p + 1, 2 * p}) {
      for (const std::int32_t extra : {0, m - p + 1}) {
        Pipeline wanted = pipeline("2bw", p, m, extra);
        wanted.request.width = 2;
        const Program program = program_of(wanted);
        for (const ReplicaId replica : ids(program.placement().device)) {
          const InstructionId forward = find(program, OpKind::forward, replica, 0);
          const InstructionId update = before_on_lane(program, forward);
          EXPECT_EQ(program[update].op.kind, OpKind::update) << wanted.name();
          // Covers the batch two before the one that begins.
          const std::int32_t later =
              program[forward].op.microbatch / m - program[update].op.microbatch / m;
          EXPECT_EQ(later + (update > forward ? 1 : 0), 2) << wanted.name();
          EXPECT_NE(wait_for(program, update, OpKind::reduce_gradient), nullptr);
        }
      }
    }
  }
}

TEST(Lower, PutsTheNormOnAllDevicesBehindAllGradientsAndTheirSums) {
  Pipeline wanted = pipeline("1f1b", 3, 2);
  wanted.request.global_norm = true;
  const auto norm_of = [&](const Program& program) {
    return find(program, OpKind::reduce_norm, ReplicaId{0}, 1);
  };
  const Program plain = program_of(wanted);
  std::vector<Wait> gradients;
  for (const ReplicaId replica : ids(plain.placement().device)) {
    gradients.push_back({find(plain, OpKind::backward, replica, 1), 0});
    EXPECT_NE(wait_for(plain, find(plain, OpKind::update, replica, 1), OpKind::reduce_norm),
              nullptr);
  }
  EXPECT_THAT(plain.waits(plain[norm_of(plain)]), ::testing::ElementsAreArray(gradients));
  EXPECT_EQ(lanes_of(plain, norm_of(plain)).size(), 3u);
  for (const LaneId lane : lanes_of(plain, norm_of(plain))) {
    EXPECT_EQ(plain.lanes()[lane].kind, LaneKind::collective);
  }
  // Sums stand on the same lanes: those of the first and the last stage, tied and wide.
  wanted.request.tied_embeddings = true;
  wanted.request.width = 2;
  const Program summed = program_of(wanted);
  for (const ReplicaId replica : ids(summed.placement().device)) {
    EXPECT_LT(find(summed, OpKind::reduce_gradient, replica, 1), norm_of(summed));
  }
}

TEST(Lower, LetsASumWaitForTheLastBackwardOfEachParticipantOnly) {
  Pipeline wanted = pipeline("gpipe", 3, 4);
  wanted.request.tied_embeddings = true;
  const Program program = program_of(wanted);
  const InstructionId sum = find(program, OpKind::reduce_tied, ReplicaId{0}, 3);
  EXPECT_THAT(program.waits(program[sum]),
              ElementsAre(Wait{find(program, OpKind::backward, ReplicaId{0}, 3), 0},
                          Wait{find(program, OpKind::backward, ReplicaId{2}, 3), 0}));
  std::vector<Lane> lanes;
  for (const LaneId lane : program.lanes(program[sum])) lanes.push_back(program.lanes()[lane]);
  EXPECT_THAT(lanes, ElementsAre(Lane{DeviceId{0}, LaneKind::collective, DeviceId{0}},
                                 Lane{DeviceId{2}, LaneKind::collective, DeviceId{2}}));
}

TEST(Lower, AsksForTensOfPricesNotForThousands) {
  const Program program = program_of(pipeline("2bw", 8, 64));
  EXPECT_GT(program.size(), 1800u);
  // F, B and update of 8 stages, both transfers of 7 links.
  EXPECT_EQ(program.cost_keys().size(), 8u * 3 + 7 * 2);
}

// ---- What can't be lowered ----

constexpr ReplicaId kTop{0}, kBottom{1};

Schedule two_devices(std::int32_t microbatches, std::vector<Op> top, std::vector<Op> bottom) {
  Schedule schedule = empty_schedule({.devices = 2, .microbatches = microbatches, .replicas = {}},
                                     linear_placement(2));
  schedule.name = "hand-written";
  schedule.order = {std::move(top), std::move(bottom)};
  return schedule;
}

template <class Thrown>
std::string refusal(const Schedule& schedule) {
  try {
    lower(schedule);
  } catch (const Thrown& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Lower, ReportsADeadlockAsItsWaitCycleWithAPicture) {
  const Schedule schedule =
      two_devices(2,
                  {forward(kTop, 0), backward(kTop, 0), forward(kTop, 1), backward(kTop, 1),
                   update(kTop, 1, 2)},
                  {forward(kBottom, 0), forward(kBottom, 1), backward(kBottom, 0),
                   backward(kBottom, 1), update(kBottom, 1, 2)});
  EXPECT_EQ(refusal<InfeasibleError>(schedule),
            R"(schedule "hand-written" would deadlock, a cycle of 6 waits:
  backward 0 of stage 0 (device 0) waits for send_gradient 0 from device 1 to 0
  send_gradient 0 from device 1 to 0 waits for backward 0 of stage 1 (device 1)
  backward 0 of stage 1 (device 1) comes after forward 1 of stage 1 (device 1)
  forward 1 of stage 1 (device 1) waits for send_activation 1 from device 0 to 1
  send_activation 1 from device 0 to 1 waits for forward 1 of stage 0 (device 0)
  forward 1 of stage 0 (device 0) comes after backward 0 of stage 0 (device 0)
  0 | f0 b0 f1 b1 U1
         ^^
  1 | f0 f1 b0 b1 U1
            ^^
  1 | f0 f1 b0 b1 U1
         ^^
  0 | f0 b0 f1 b1 U1
            ^^)");
}

/// Lets every device run its next op as soon as it can, with no order but its own.
bool can_run(const Schedule& schedule) {
  std::set<std::tuple<OpKind, ReplicaId, std::int32_t>> done;
  const std::size_t last = schedule.placement.replicas() - 1;
  const auto ready = [&](const Op& op) {
    const std::size_t stage = index(op.replica);
    const auto did = [&](OpKind kind, std::size_t other) {
      return done.contains({kind, id_at<ReplicaId>(other), op.microbatch});
    };
    if (op.kind == OpKind::forward) return stage == 0 || did(OpKind::forward, stage - 1);
    if (op.kind == OpKind::update) return true;
    return did(OpKind::forward, stage) && (stage == last || did(OpKind::backward, stage + 1));
  };
  Table<DeviceId, std::size_t> next(schedule.order.size());
  bool progress = true, finished = false;
  while (progress) {
    progress = false;
    finished = true;
    for (const DeviceId device : ids(schedule.order)) {
      const std::vector<Op>& order = schedule.order[device];
      while (next[device] < order.size() && ready(order[next[device]])) {
        const Op& op = order[next[device]++];
        done.insert({op.kind, op.replica, op.microbatch});
        progress = true;
      }
      finished = finished && next[device] == order.size();
    }
  }
  return finished;
}

TEST(Lower, RefusesExactlyTheOrdersThatNoMachineCouldRun) {
  std::mt19937_64 random(17);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Schedule schedule = schedule_of(pipeline(i % 2 == 0 ? "1f1b" : "gpipe", 3, 3));
    for (auto swaps = random() % 6; swaps > 0; --swaps) {
      std::vector<Op>& order = schedule.order[id_at<DeviceId>(random() % 3)];
      std::swap(order[random() % (order.size() - 1)], order[random() % (order.size() - 1)]);
    }
    const bool runs = can_run(schedule);
    ++(runs ? accepted : refused);
    const std::string message = refusal<InfeasibleError>(schedule);
    ASSERT_EQ(message == "accepted", runs) << i << ": " << message;
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 200);
}

TEST(Lower, ReportsADeadlockWithinADevice) {
  const std::string message = refusal<InfeasibleError>(
      two_devices(1, {forward(kTop, 0), backward(kTop, 0), update(kTop, 0, 1)},
                  {backward(kBottom, 0), forward(kBottom, 0), update(kBottom, 0, 1)}));
  EXPECT_THAT(message, HasSubstr("a cycle of 2 waits"));
  EXPECT_THAT(message, HasSubstr("backward 0 of stage 1 (device 1) waits for forward 0"));
}

TEST(Lower, NeverLets2BWUseAVersionThatIsNotMadeYet) {
  // What reject() keeps from users: m one below p − 1, and far below.
  ScheduleRequest request{.devices = 4, .microbatches = 2, .replicas = {}};
  const ScheduleTraits& row = find_schedule("2bw");
  EXPECT_THAT(refusal<InfeasibleError>(row.make(request)),
              HasSubstr("forward 4 of stage 0 (device 0) waits for update 1 of stage 0"));
  request.microbatches = 1;
  EXPECT_THAT(refusal<InfeasibleError>(row.make(request)),
              HasSubstr("forward 3 of stage 0 (device 0) needs update 0 of stage 0 (device 0), "
                        "which the loop makes 1 bodies later"));
  request.microbatches = 3;
  EXPECT_EQ(refusal<InfeasibleError>(row.make(request)), "accepted");
}

TEST(Lower, NamesWhatAScheduleLacks) {
  const std::vector<Op> top{forward(kTop, 0), backward(kTop, 0), update(kTop, 0, 1)};
  const std::vector<Op> bottom{forward(kBottom, 0), backward(kBottom, 0), update(kBottom, 0, 1)};
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, bottom)), "accepted");
  for (std::size_t dropped = 0; dropped < 2; ++dropped) {
    std::vector<Op> less = bottom;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(dropped));
    EXPECT_EQ(refusal<InputError>(two_devices(1, top, less)),
              "schedule \"hand-written\": stage 1 has only a part of microbatch 0: forward, input- "
              "and weight-gradient belong together");
  }
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {bottom[0], bottom[1]})),
            "schedule \"hand-written\": no update of stage 1 covers microbatch 0");
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {bottom[2]})),
            "schedule \"hand-written\": stage 1 processes microbatch 0 0 times, expected once");
  EXPECT_EQ(refusal<InputError>(two_devices(1, {top[0], top[0], top[1], top[2]}, bottom)),
            "schedule \"hand-written\": stage 0 has forward of microbatch 0 twice");
}

TEST(Lower, RefusesOpsThatNoDeviceCouldRun) {
  const std::vector<Op> top{forward(kTop, 0), backward(kTop, 0), update(kTop, 0, 1)};
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {forward(kTop, 0)})),
            "schedule \"hand-written\": device 1 runs an op of stage 0, which is on device 0");
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {forward(ReplicaId{7}, 0)})),
            "schedule \"hand-written\": device 1 runs an op of stage 7, which does not exist");
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {forward(kBottom, -1)})),
            "schedule \"hand-written\": forward of stage 1 has microbatch offset -1 and span 1: a "
            "span must stay inside one batch");
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {update(kBottom, 0, 2)})),
            "schedule \"hand-written\": update of stage 1 has microbatch offset 0 and span 2: a "
            "span must stay inside one batch");
  Op sum = update(kBottom, 0, 1);
  sum.kind = OpKind::reduce_tied;
  EXPECT_EQ(refusal<InputError>(two_devices(1, top, {sum})),
            "schedule \"hand-written\": a tied sum needs tied stages, with as many replicas each");
}

/// Two stages with f1 and b0 of the first as one unit.
Schedule with_unit() {
  Schedule schedule = schedule_of(pipeline("1f1b", 2, 2));
  std::vector<Op>& upper = schedule.order[DeviceId{0}];
  for (const std::size_t member : {1u, 2u}) upper[member].group = 1;
  return schedule;
}

TEST(Lower, MakesAUnitOfNeighboursOfOneGroup) {
  const Program program = lower(with_unit());
  const ReplicaId upper{0};
  const InstructionId onward = find(program, OpKind::forward, upper, 1);
  const InstructionId back = find(program, OpKind::backward, upper, 0);
  ASSERT_NE(wait_for(program, onward, OpKind::send_gradient), nullptr);
  EXPECT_TRUE(program.waits(program[back]).empty());
  const InstructionId sent = find(program, OpKind::send_activation, upper, 1);
  EXPECT_THAT(
      std::vector<Wait>(program.waits(program[sent]).begin(), program.waits(program[sent]).end()),
      ElementsAre(Wait{back, 0}));
  for (const InstructionId member : {onward, back}) {
    EXPECT_TRUE(program.cost_keys()[program[member].cost].overlapped);
  }
  EXPECT_FALSE(
      program.cost_keys()[program[find(program, OpKind::forward, upper, 0)].cost].overlapped);
}

TEST(Lower, PricesAUnitOfOneKindAsItsMembers) {
  const Program program = program_of(pipeline("timeprest", 3, 2));
  const ReplicaId middle{1};
  const InstructionId first = find(program, OpKind::backward, middle, 0);
  const InstructionId last = find(program, OpKind::backward, middle, 1);
  for (const InstructionId member : {first, last})
    EXPECT_FALSE(program.cost_keys()[program[member].cost].overlapped);
  // Before the first it waits for the last of the gradients, and it sends after the last.
  const Wait* gradient = wait_for(program, first, OpKind::send_gradient);
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(program[gradient->producer].op.microbatch, 1);
  EXPECT_TRUE(program.waits(program[last]).empty());
  for (const std::int32_t microbatch : {0, 1}) {
    const InstructionId sent = find(program, OpKind::send_gradient, middle, microbatch);
    const std::span<const Wait> waits = program.waits(program[sent]);
    EXPECT_THAT(std::vector<Wait>(waits.begin(), waits.end()), ElementsAre(Wait{last, 0}));
  }
}

TEST(Lower, RefusesAUnitThatWaitsForItself) {
  // f1 of the last stage needs what its unit sends only when b0 of the last stage has come back.
  Schedule schedule = with_unit();
  std::vector<Op>& lower_order = schedule.order[DeviceId{1}];
  std::swap(lower_order[1], lower_order[2]);  // f0 f1 b0 b1
  EXPECT_THROW(lower(schedule), InfeasibleError);
  schedule.order[DeviceId{0}][1].group = 0;
  EXPECT_NO_THROW(lower(schedule));
}

std::string diagnostic_about(const Schedule& schedule) {
  try {
    lower(schedule);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Lower, RefusesUnitsOfTwoBatchesAndOfWhatDoesNotCompute) {
  Schedule schedule = schedule_of(pipeline("2bw", 2, 2));
  for (Op& op : schedule.order[DeviceId{0}]) op.group = 1;
  EXPECT_THAT(diagnostic_about(schedule),
              HasSubstr("group 1 has backward 0 and forward 2, of two batches"));
  schedule = with_unit();
  for (Op& op : schedule.order[DeviceId{1}]) op.group = 1;
  EXPECT_THAT(diagnostic_about(schedule),
              HasSubstr("only forwards, recomputations and backwards can be one unit"));
}

}  // namespace
}  // namespace tandem::testing
