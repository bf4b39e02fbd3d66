// verify() on programs written by hand, so that nothing here depends on what lower() makes; and its
// order of instances against a brute-force unrolling of random programs.

#include "core/verify/verify.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/verify/order.h"
#include "tests/core/draft.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr ReplicaId kFirst{0}, kSecond{1};
constexpr DeviceId kUpper{0}, kLower{1};

Op op(OpKind kind, ReplicaId replica, std::int32_t microbatch, std::uint16_t span = 1) {
  return {.kind = kind, .replica = replica, .microbatch = microbatch, .span = span};
}

/// 1F1B of two stages and two microbatches. The rows, by name:
struct OneForwardOneBackward {
  Draft draft;
  InstructionId f00, s0, f01, f10, b10, g0, s1, f11, b00, b11, g1, u1, b01, u0;
  OneForwardOneBackward() {
    draft.rest.schedule = "1f1b";
    draft.rest.microbatches = 2;
    draft.rest.placement = linear_placement(2);
    f00 = draft.add(op(OpKind::forward, kFirst, 0));
    s0 = draft.add_transfer(op(OpKind::send_activation, kFirst, 0), kLower, {{f00}});
    f01 = draft.add(op(OpKind::forward, kFirst, 1));
    f10 = draft.add(op(OpKind::forward, kSecond, 0), {{s0}});
    s1 = draft.add_transfer(op(OpKind::send_activation, kFirst, 1), kLower, {{f01}});
    b10 = draft.add(op(OpKind::backward, kSecond, 0));
    g0 = draft.add_transfer(op(OpKind::send_gradient, kSecond, 0), kUpper, {{b10}});
    f11 = draft.add(op(OpKind::forward, kSecond, 1), {{s1}});
    b00 = draft.add(op(OpKind::backward, kFirst, 0), {{g0}});
    b11 = draft.add(op(OpKind::backward, kSecond, 1));
    g1 = draft.add_transfer(op(OpKind::send_gradient, kSecond, 1), kUpper, {{b11}});
    u1 = draft.add(op(OpKind::update, kSecond, 1, 2));
    b01 = draft.add(op(OpKind::backward, kFirst, 1), {{g1}});
    u0 = draft.add(op(OpKind::update, kFirst, 1, 2));
  }
  Draft::Row& row(InstructionId id) { return draft.rows[index(id)]; }
};

/// In the order of SlotKind: weights, gradients, stash, input, output, output_gradient,
/// input_gradient.
SlotCounts enough() {
  SlotCounts slots(2);
  slots[kFirst].counts = {1, 1, 2, 0, 2, 0};
  slots[kSecond].counts = {1, 1, 1, 2, 0, 2};
  return slots;
}

std::vector<std::string> messages(const Program& program, const SlotCounts& slots = enough()) {
  std::vector<std::string> found;
  for (const Violation& violation : verify(program, slots)) {
    found.push_back(fmt::format("{}: {}", name(violation.kind), violation.message));
  }
  return found;
}

TEST(Verify, AcceptsAGoodProgram) {
  EXPECT_THAT(messages(OneForwardOneBackward().draft.build()), IsEmpty());
}

TEST(Verify, AcceptsTransfersWithoutLanes) {
  OneForwardOneBackward good;
  for (Draft::Row& row : good.draft.rows) {
    if (is_transfer(row.op.kind)) row.lanes.clear();
  }
  EXPECT_THAT(messages(good.draft.build()), IsEmpty());
}

TEST(Verify, NamesTheMicrobatchThatLacksAnOp) {
  OneForwardOneBackward broken;
  broken.draft.drop(index(broken.b11));
  EXPECT_THAT(
      messages(broken.draft.build()),
      IsSupersetOf({"missing_op: no backward of microbatch 1 on stage 1 (device 1)",
                    "missing_op: no weight gradient of microbatch 1 on stage 1 (device 1)"}));
}

TEST(Verify, NamesTheOpThatIsThereTwice) {
  OneForwardOneBackward broken;
  broken.draft.repeat(index(broken.f11));
  EXPECT_THAT(messages(broken.draft.build()),
              ElementsAre("duplicate_op: f1 (stage 1, microbatch 1, device 1): the forward of "
                          "microbatch 1 is also made by f1 (stage 1, microbatch 1, device 1)"));
}

TEST(Verify, NamesTheMissingTransfer) {
  OneForwardOneBackward broken;
  broken.draft.drop(index(broken.g1));
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("missing_transfer: no send_gradient of microbatch 1 from stage 1 "
                       "(device 1) to stage 0 (device 0)"));
}

TEST(Verify, WantsATransferOnTheLanesOfItsPeers) {
  OneForwardOneBackward broken;
  broken.row(broken.s1).lanes = broken.row(broken.g1).lanes;
  EXPECT_THAT(messages(broken.draft.build()),
              ElementsAre("missing_transfer: send_activation 0→1 #1 of stage 0 (device 0): not on "
                          "the send_activation lane of device 0 and the receive_activation lane "
                          "of device 1, in this order"));
}

TEST(Verify, WantsComputationOnTheComputeLane) {
  OneForwardOneBackward broken;
  broken.row(broken.f11).lanes = broken.row(broken.f00).lanes;
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("malformed: f1 (stage 1, microbatch 1, device 1): not on the "
                       "compute lane of device 1 alone"));
}

TEST(Verify, WantsTheRightPrice) {
  OneForwardOneBackward broken;
  broken.row(broken.f11).cost = broken.row(broken.f00).cost;
  EXPECT_THAT(messages(broken.draft.build()),
              ElementsAre("malformed: f1 (stage 1, microbatch 1, device 1): priced as forward of "
                          "stage 0 from device 0 to 0, width 1"));
}

/// The same with f1 and b0 of the upper device as one unit.
struct Overlapped {
  Draft draft;
  InstructionId f01, b00, s1;
  Overlapped() {
    draft.rest.schedule = "overlapped";
    draft.rest.microbatches = 2;
    draft.rest.placement = linear_placement(2);
    const auto f00 = draft.add(op(OpKind::forward, kFirst, 0));
    const auto s0 = draft.add_transfer(op(OpKind::send_activation, kFirst, 0), kLower, {{f00}});
    draft.add(op(OpKind::forward, kSecond, 0), {{s0}});
    const auto b10 = draft.add(op(OpKind::backward, kSecond, 0));
    const auto g0 = draft.add_transfer(op(OpKind::send_gradient, kSecond, 0), kUpper, {{b10}});
    f01 = add_member(op(OpKind::forward, kFirst, 1), {{g0}});
    b00 = add_member(op(OpKind::backward, kFirst, 0), {});
    s1 = draft.add_transfer(op(OpKind::send_activation, kFirst, 1), kLower, {{b00}});
    draft.add(op(OpKind::forward, kSecond, 1), {{s1}});
    const auto b11 = draft.add(op(OpKind::backward, kSecond, 1));
    const auto g1 = draft.add_transfer(op(OpKind::send_gradient, kSecond, 1), kUpper, {{b11}});
    draft.add(op(OpKind::update, kSecond, 1, 2));
    draft.add(op(OpKind::backward, kFirst, 1), {{g1}});
    draft.add(op(OpKind::update, kFirst, 1, 2));
  }
  InstructionId add_member(Op member, std::vector<Wait> waits) {
    member.group = 1;
    const InstructionId id = draft.add(member, std::move(waits));
    CostKey key{.kind = member.kind, .replica = member.replica};
    key.overlapped = true;
    row(id).cost = draft.cost(key);
    return id;
  }
  Draft::Row& row(InstructionId id) { return draft.rows[index(id)]; }
};

TEST(Verify, AcceptsAUnit) { EXPECT_THAT(messages(Overlapped().draft.build()), IsEmpty()); }

TEST(Verify, WantsAUnitToStartWhenAllOfItCan) {
  Overlapped broken;
  std::swap(broken.row(broken.f01).waits, broken.row(broken.b00).waits);
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("missing_wait: f1 (stage 0, microbatch 1, device 0) may start before "
                       "send_gradient 1→0 #0 has ended"));
}

TEST(Verify, WantsAUnitToEndWhenAllOfItHas) {
  Overlapped broken;
  broken.row(broken.s1).waits = {{broken.f01}};
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("missing_wait: send_activation 0→1 #1 may start before b0 (stage 0, "
                       "microbatch 0, device 0) has ended"));
}

TEST(Verify, WantsAUnitAtItsOwnPrice) {
  Overlapped broken;
  broken.row(broken.b00).op.group = 2;
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("malformed: b0 (stage 0, microbatch 0, device 0): priced as backward of "
                       "stage 0 from device 0 to 0, width 1, overlapped"));
}

TEST(Verify, WantsAUnitToWorkOnOneBatch) {
  Overlapped broken;
  broken.row(broken.f01).op.microbatch += 2;
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("malformed: b0 (stage 0, microbatch 0, device 0): one unit with f3 (stage "
                       "0, microbatch 1, device 0), which works on another batch or does not "
                       "compute"));
}

TEST(Verify, NamesBothEndsOfAMissingWait) {
  OneForwardOneBackward broken;
  broken.row(broken.b00).waits.clear();
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("missing_wait: b0 (stage 0, microbatch 0, device 0) may start "
                       "before send_gradient 1→0 #0 has ended"));
}

TEST(Verify, WantsOneVersionForwardsAndBackwards) {
  OneForwardOneBackward broken;
  broken.row(broken.b11).op.staleness = 1;
  EXPECT_THAT(
      messages(broken.draft.build()),
      ElementsAre("wrong_version: b1 (stage 1, microbatch 1, device 1): microbatch 1 uses "
                  "weights 1 updates old, its forward 0",
                  HasSubstr("version_overwritten: stage 1 (device 1): with 1 weight slots")));
}

/// Two stages of PACI with an update a microbatch; the rows of the first, by name.
struct NewestOfTwo {
  Draft draft;
  InstructionId f, b;
  NewestOfTwo() {
    draft.rest.schedule = "mine";
    draft.rest.placement = linear_placement(2);
    draft.rest.version_rule = VersionRule::newest;
    Op ahead = op(OpKind::forward, kFirst, 1);
    ahead.staleness = 1;
    f = draft.add(ahead);
    const InstructionId send =
        draft.add_transfer(op(OpKind::send_activation, kFirst, 1), kLower, {{f}});
    draft.add(op(OpKind::forward, kSecond, 0), {{send, 1}});
    const InstructionId back = draft.add(op(OpKind::backward, kSecond, 0));
    const InstructionId gradient =
        draft.add_transfer(op(OpKind::send_gradient, kSecond, 0), kUpper, {{back}});
    draft.add(op(OpKind::update, kSecond, 0));
    b = draft.add(op(OpKind::backward, kFirst, 0), {{gradient}});
    draft.add(op(OpKind::update, kFirst, 0));
  }
  static SlotCounts slots() {
    SlotCounts slots(2);
    slots[kFirst].counts = {2, 1, 2, 0, 2, 0};
    slots[kSecond].counts = {1, 1, 1, 2, 0, 2};
    return slots;
  }
};

TEST(Verify, AcceptsAForwardAndABackwardThatReadTheNewestWeightsEach) {
  NewestOfTwo good;
  EXPECT_THAT(messages(good.draft.build(), NewestOfTwo::slots()), IsEmpty());
  good.draft.rest.version_rule = VersionRule::same;
  EXPECT_THAT(messages(good.draft.build(), NewestOfTwo::slots()),
              ElementsAre("wrong_version: b0 (stage 0, microbatch 0, device 0): microbatch 0 uses "
                          "weights 0 updates old, its forward 1"));
}

TEST(Verify, WantsTheNewestWeightsWhereEachOpReadsThem) {
  NewestOfTwo broken;
  broken.draft.rows[index(broken.b)].op.staleness = 1;
  EXPECT_THAT(messages(broken.draft.build(), NewestOfTwo::slots()),
              ElementsAre("wrong_version: b0 (stage 0, microbatch 0, device 0): the weights that "
                          "microbatch 0 uses, 1 updates old, may not be the newest: U0 (stage 0, "
                          "microbatch 0, device 0) may make newer ones before it ends"));
  NewestOfTwo early;
  early.draft.rows[index(early.f)].op.staleness = 0;
  EXPECT_THAT(messages(early.draft.build(), NewestOfTwo::slots()),
              ElementsAre(HasSubstr("wrong_version: f1 (stage 0, microbatch 0, device 0): the "
                                    "weights that microbatch 0 uses, 0 updates old, may not exist "
                                    "yet")));
}

TEST(Verify, WantsTheVersionsThatAreReadAfterAPause) {
  SlotCounts slots = NewestOfTwo::slots();
  slots[kFirst][SlotKind::weights] = 1;
  EXPECT_THAT(messages(NewestOfTwo().draft.build(), slots),
              ElementsAre(HasSubstr("version_overwritten: stage 0 (device 0): with 1 weight slots, "
                                    "U0 (stage 0, microbatch 0, device 0)")));
}

TEST(Verify, WantsAVersionToExist) {
  OneForwardOneBackward broken;
  // A forward of the next batch: the update of this one is behind it.
  broken.row(broken.f11).op.microbatch = 3;
  EXPECT_THAT(messages(broken.draft.build()),
              Contains(HasSubstr("wrong_version: f3 (stage 1, microbatch 1, device 1): "
                                 "the weights that microbatch 1 uses, 0 updates old, "
                                 "may not exist yet")));
}

TEST(Verify, WantsASlotToBeFree) {
  OneForwardOneBackward good;
  SlotCounts slots = enough();
  slots[kSecond][SlotKind::input] = 1;
  EXPECT_THAT(messages(good.draft.build(), slots),
              ElementsAre("slot_overwritten: stage 1 (device 1): with 1 input slots, "
                          "send_activation 0→1 #1 takes the one of microbatch 0 for microbatch 1, "
                          "but b0 (stage 1, microbatch 0, device 1) may still use it"));
  slots[kSecond][SlotKind::input] = 0;
  EXPECT_THAT(messages(good.draft.build(), slots),
              ElementsAre("slot_overwritten: stage 1 (device 1): no input slot, but "
                          "send_activation 0→1 #0 needs one for microbatch 0"));
}

TEST(Verify, WantsSlotsForEveryStage) {
  EXPECT_THAT(messages(OneForwardOneBackward().draft.build(), SlotCounts(1)),
              ElementsAre("malformed: slots are counted for 1 stages, but there are 2"));
}

TEST(Verify, WantsASpanWithinABatch) {
  OneForwardOneBackward broken;
  broken.row(broken.u1).op.span = 3;
  EXPECT_THAT(
      messages(broken.draft.build()),
      ElementsAre("malformed: U1 (stage 1, microbatch 1, device 1): a span of 3 microbatches "
                  "that end with microbatch 1 crosses a batch boundary"));
}

TEST(Verify, WantsEveryMicrobatchUpdatedOnce) {
  OneForwardOneBackward broken;
  broken.row(broken.u1).op.span = 1;
  EXPECT_THAT(messages(broken.draft.build()),
              Contains("missing_op: no update covers microbatch 0 to 0 on stage 1 "
                       "(device 1)"));
}

// Device 0 runs b0 before f1, device 1 runs f1 before b0: each waits for what the other sends
// after.
TEST(Verify, NamesTheCycleOfADeadlock) {
  Draft draft;
  draft.rest.schedule = "mine";
  draft.rest.microbatches = 2;
  draft.rest.placement = linear_placement(2);
  const InstructionId f00 = draft.add(op(OpKind::forward, kFirst, 0));
  const InstructionId s0 =
      draft.add_transfer(op(OpKind::send_activation, kFirst, 0), kLower, {{f00}});
  draft.add(op(OpKind::forward, kSecond, 0), {{s0}});
  const InstructionId f11 = draft.add(op(OpKind::forward, kSecond, 1));
  const InstructionId b10 = draft.add(op(OpKind::backward, kSecond, 0));
  const InstructionId g0 =
      draft.add_transfer(op(OpKind::send_gradient, kSecond, 0), kUpper, {{b10}});
  draft.add(op(OpKind::backward, kFirst, 0), {{g0}});
  const InstructionId f01 = draft.add(op(OpKind::forward, kFirst, 1));
  const InstructionId s1 =
      draft.add_transfer(op(OpKind::send_activation, kFirst, 1), kLower, {{f01}});
  draft.rows[index(f11)].waits = {{s1}};
  const std::vector<Violation> violations = verify(draft.build());
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].kind, ViolationKind::deadlock);
  EXPECT_EQ(violations[0].message,
            "a cycle of 2 waits:\n"
            "  device 1: f1 waits for send_activation 0→1 #1, which waits for f1, which device 0 "
            "issues after b0\n"
            "  device 0: b0 waits for send_gradient 1→0 #0, which waits for b0, which device 1 "
            "issues after f1");
}

TEST(Verify, TellsDisorderFromDeadlock) {
  OneForwardOneBackward broken;
  broken.draft.swap(index(broken.b11), index(broken.g1));
  EXPECT_THAT(
      messages(broken.draft.build()),
      ElementsAre("malformed: send_gradient 1→0 #1 stands before b1 (stage 1, microbatch 1, "
                  "device 1), which it waits for"));
}

// 2BW with one stage, a forward one batch ahead, and its update on a lane of its own. In mid-run
// the backward of batch n follows the forward of batch n + 1, which waits for update n − 1. The
// last batch has no forward behind it: nothing keeps its backward from adding to gradients that the
// update before still reads.
TEST(Verify, TrustsNoInstanceBeyondTheEndOfARun) {
  Draft draft;
  draft.rest.schedule = "2bw";
  draft.rest.placement = linear_placement(1);
  Op forward = op(OpKind::forward, kFirst, 1), backward = op(OpKind::backward, kFirst, 0);
  forward.staleness = backward.staleness = 1;
  const InstructionId f = draft.add(forward);
  const InstructionId b = draft.add(backward);
  const LaneId collective = draft.lane(kUpper, LaneKind::collective);
  const CostKey key{.kind = OpKind::reduce_gradient, .width = 2};
  draft.rows.push_back(
      {op(OpKind::reduce_gradient, kFirst, 0), draft.cost(key), {collective}, {{b}}});
  const InstructionId u = draft.add(op(OpKind::update, kFirst, 0));
  draft.rows.back().lanes = {collective};
  draft.rows[index(f)].waits = {{u, 1}};
  SlotCounts slots(1);
  slots[kFirst].counts = {2, 1, 2, 0, 0, 0};
  EXPECT_THAT(
      messages(draft.build(), slots),
      ElementsAre(
          "slot_overwritten: stage 0 (device 0): with 1 gradients slots, b0 (stage 0, "
          "microbatch 0, device 0) takes the one of microbatch 0 (1 batch "
          "before) for microbatch 0, but U0 (stage 0, microbatch 0, device 0) may still use it"));
  slots[kFirst][SlotKind::gradients] = 2;
  EXPECT_THAT(messages(draft.build(), slots), IsEmpty());
  EXPECT_THAT(least_slots(draft.build(), 6), slots);
}

/// A program that means nothing: a few lanes, offsets and waits at random, in an order that holds.
Program random_program(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Draft draft;
  draft.rest.microbatches = static_cast<std::int32_t>(1 + below(3));
  draft.rest.placement = linear_placement(4);
  const std::size_t lanes = 2 + below(5), size = 4 + below(20);
  for (std::size_t i = 0; i < lanes; ++i) {
    draft.lane(id_at<DeviceId>(i % 4), static_cast<LaneKind>(i / 4));
  }
  for (std::size_t i = 0; i < size; ++i) {
    Op one = op(
        OpKind::forward, kFirst,
        static_cast<std::int32_t>(below(3 * static_cast<std::uint64_t>(draft.rest.microbatches))));
    draft.add(one);
    Draft::Row& row = draft.rows.back();
    row.lanes.clear();
    const bool laneless = below(5) == 0;
    for (std::size_t lane = 0; lane < lanes && !laneless; ++lane) {
      if (below(lanes) < 1 + below(2)) row.lanes.push_back(id_at<LaneId>(lane));
    }
    for (std::uint64_t n = below(3); n > 0; --n) {
      const Wait wait{id_at<InstructionId>(below(size)), static_cast<std::uint32_t>(below(3))};
      if (wait.lag > 0 || index(wait.producer) < i) row.waits.push_back(wait);
    }
  }
  return draft.build();
}

/// Two transfers without lanes in a chain: what the search says it does not see.
bool has_laneless_chain(const Program& program) {
  for (const InstructionId id : program.order()) {
    for (const Wait& wait : program.waits(program[id])) {
      if (program[id].lane_count == 0 && program[wait.producer].lane_count == 0) return true;
    }
  }
  return false;
}

// Every pair of instructions, up to three batches apart either way, in the shortest run that has
// both.
TEST(Order, IsThatOfTheUnrolledRun) {
  const auto given = ::testing::UnitTest::GetInstance()->random_seed();
  const std::uint64_t seed = static_cast<std::uint64_t>(given) + 1;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  std::size_t yes = 0, no = 0;
  for (int round = 0; round < 60; ++round) {
    const Program program = random_program(random);
    if (has_laneless_chain(program)) continue;
    verification::Order order(program);
    for (std::int64_t apart = -3; apart <= 3; ++apart) {
      const Unrolled run(program, std::abs(apart) + 1);
      ASSERT_TRUE(run.ordered());
      std::vector<std::vector<std::size_t>> node(2, std::vector<std::size_t>(program.size()));
      for (std::size_t i = 0; i < run.nodes().size(); ++i) {
        const std::int64_t batch = run.nodes()[i].microbatch / program.microbatches();
        if (batch == std::max<std::int64_t>(0, -apart)) node[0][index(run.nodes()[i].id)] = i;
        if (batch == std::max<std::int64_t>(0, apart)) node[1][index(run.nodes()[i].id)] = i;
      }
      for (const InstructionId first : program.order()) {
        for (const InstructionId then : program.order()) {
          const std::size_t from = node[0][index(first)], to = node[1][index(then)];
          if (from == to) continue;
          const bool expected = from < to && run.before(from, to);
          ASSERT_EQ(order.before(first, then, apart), expected)
              << round << ": " << index(first) << " before " << index(then) << " + " << apart;
          ++(expected ? yes : no);
        }
      }
    }
  }
  EXPECT_GT(yes, 1000u);
  EXPECT_GT(no, 1000u);
}

}  // namespace
}  // namespace tandem::testing
