// Stashes that go to a partner and come back: which of them bpipe sends, the slots they take on
// both devices, what lower() makes of them, and that verify() misses what is taken away.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/memory/memory.h"
#include "core/notation/notation.h"
#include "core/verify/verify.h"
#include "tests/core/draft.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure_of(const std::string& schedule) {
  try {
    lower(parse_schedule(schedule));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Two devices, each the other's partner, and an order of the first.
std::string pair(const std::string& first) {
  return "# pair  devices 2  microbatches 2\n# partners 1 0\n0 | " + first +
         " U\n1 | f0 b0 f1 b1 U\n";
}

TEST(BPipe, IsTheOrderOf1F1BWithEvictionsAfterForwardsAndLoadsBeforeBackwards) {
  EXPECT_EQ(print_schedule(schedule_of(pipeline("bpipe", 4, 8))),
            "# bpipe  devices 4  microbatches 8\n"
            "# partners 3 2 1 0\n"
            "0 | f0 E0 f1 f2 E2 L0 f3 b0 f4 E4 b1 L2 f5 b2 f6 E6 b3 L4 f7 b4 L6 b5 b6 b7 U\n"
            "1 | f0 f1 f2 b0 f3 b1 f4 b2 f5 b3 f6 b4 f7 b5 b6 b7 U\n"
            "2 | f0 f1 b0 f2 b1 f3 b2 f4 b3 f5 b4 f6 b5 f7 b6 b7 U\n"
            "3 | f0 b0 f1 b1 f2 b2 f3 b3 f4 b4 f5 b5 f6 b6 f7 b7 U\n");
  for (const int p : {2, 4, 6, 10}) {
    for (const int m : {1, 3, 9, 24}) {
      const Schedule bpipe = schedule_of(pipeline("bpipe", p, m));
      const Schedule plain = schedule_of(pipeline("1f1b", p, m));
      for (const DeviceId device : ids(bpipe.order)) {
        std::vector<Op> stays = bpipe.order[device];
        std::erase_if(stays, [](const Op& op) { return moves_stash(op.kind); });
        EXPECT_EQ(stays, plain.order[device]);
      }
    }
  }
}

TEST(BPipe, NeedsPairs) {
  for (const int p : {1, 3, 5}) EXPECT_FALSE(is_served(pipeline("bpipe", p, 4)));
  EXPECT_EQ(*reason_against(find_schedule("bpipe"), pipeline("bpipe", 3, 4).request),
            "bpipe pairs each device with another, so it needs an even number, found 3: take 2 or "
            "4");
}

/// Of each device, those of its own stage and those that it hosts.
std::vector<std::int32_t> stashes(const Program& program) {
  const SlotCounts slots = count_slots(program);
  std::vector<std::int32_t> all(program.placement().devices, 0);
  for (const ReplicaId replica : ids(slots)) {
    const DeviceId device = program.placement().device[replica];
    all[index(device)] +=
        slots[replica][SlotKind::stash] + slots[replica][SlotKind::eviction_buffer];
    all[index(program.placement().partner[device])] += slots[replica][SlotKind::hosted_stash];
  }
  return all;
}

// Device x of p holds min(m, p − x) in 1F1B; what it has beyond p/2 + 1 is with p − 1 − x.
TEST(BPipe, HoldsAtMostHalfTheDevicesAndOneMore) {
  for (const int p : {2, 4, 6, 8, 12, 16}) {
    for (int m = 1; m <= 2 * p + 3; ++m) {
      const Program program = program_of(pipeline("bpipe", p, m));
      const int most = p / 2 + 1;
      const std::vector<std::int32_t> slots = stashes(program);
      const Table<DeviceId, double> peak = peak_activations(program);
      for (int x = 0; x < p; ++x) {
        SCOPED_TRACE(fmt::format("p {} m {} device {}", p, m, x));
        const int own = std::min(m, p - x), partners = std::min(m, x + 1);
        const int hosted = partners > most ? partners - p / 2 : 0;
        EXPECT_EQ(slots[static_cast<std::size_t>(x)], std::min(own, most) + hosted);
        EXPECT_LE(slots[static_cast<std::size_t>(x)], most);
        const DeviceId device = id_at<DeviceId>(static_cast<std::size_t>(x));
        EXPECT_LE(peak[device], most);
        if (hosted == 0) {
          EXPECT_EQ(peak[device], std::min(own, most));
        }
      }
    }
  }
}

TEST(BPipe, HasNothingToEvictWhereBackwardComputesAllAgain) {
  Pipeline wanted = pipeline("bpipe", 6, 12);
  wanted.request.recompute = Recompute::stage;
  const SlotCounts slots = count_slots(program_of(wanted));
  for (const StageSlots& of : slots) {
    EXPECT_EQ(of[SlotKind::hosted_stash] + of[SlotKind::eviction_buffer], 0);
    EXPECT_EQ(of[SlotKind::stash], 1);
  }
}

TEST(Eviction, CountsItsBytesWhereTheStashIs) {
  const Program program = program_of(pipeline("bpipe", 4, 8));
  Table<ReplicaId, StageBytes> bytes(4);
  for (const ReplicaId replica : ids(bytes)) {
    const Bytes stash = 10 + static_cast<Bytes>(index(replica));
    for (const SlotKind kind :
         {SlotKind::stash, SlotKind::eviction_buffer, SlotKind::hosted_stash}) {
      bytes[replica][kind] = stash;
    }
  }
  std::vector<Bytes> held;
  for (const MemoryByClass& of : memory_by_class(program, count_slots(program), bytes)) {
    held.push_back(of.activations);
  }
  EXPECT_THAT(held, ElementsAre(3 * 10, 3 * 11, 2 * 12, 1 * 13 + 2 * 10));
}

TEST(Eviction, OfAnySchedulesReadsBackFromNotation) {
  const Schedule schedule = schedule_of(pipeline("bpipe", 6, 9));
  EXPECT_EQ(parse_schedule(print_schedule(schedule)), schedule);
}

TEST(Eviction, BelongsTogetherAndNeedsAPartner) {
  EXPECT_EQ(failure_of(pair("f0 E0 f1 L0 b0 b1")), "");
  EXPECT_THAT(failure_of(pair("f0 E0 f1 b0 b1")),
              HasSubstr("stage 0 has only a part of the eviction of microbatch 0"));
  EXPECT_THAT(failure_of(pair("f0 f1 L0 b0 b1")), HasSubstr("only a part of the eviction"));
  EXPECT_THAT(failure_of(pair("f0 E0 E0 f1 L0 b0 b1")),
              HasSubstr("stage 0 has evict of microbatch 0 twice"));
  EXPECT_THAT(failure_of(pair("f0 E0 f1 L0 r0 b0 r1 b1")), HasSubstr("no stash to evict"));
  EXPECT_THAT(failure_of("# alone  devices 2  microbatches 1\n0 | f0 E0 L0 b0 U\n1 | f0 b0 U\n"),
              HasSubstr("evict 0 of stage 0: device 0 has no partner"));
  EXPECT_THAT(failure_of("# self  devices 1  microbatches 1\n# partners 0\n0 | f0 E0 L0 b0 U\n"),
              HasSubstr("device 0 has no partner"));
}

// They have one slot in turn: the second to be loaded waits for the backward of the first.
TEST(Eviction, ThatCanNotTakeItsTurnDeadlocks) {
  EXPECT_EQ(failure_of(pair("f0 E0 f1 E1 L0 b0 L1 b1")), "");
  EXPECT_EQ(failure_of(pair("f0 f1 E0 E1 L0 L1 b0 b1")), "");
  EXPECT_THAT(failure_of(pair("f0 E0 f1 E1 L1 L0 b0 b1")), HasSubstr("would deadlock, a cycle of"));
}

// ---- What verify() says when something is taken away ----

class BrokenEviction : public ::testing::Test {
 protected:
  /// The row of an op of stage 0.
  std::size_t row(OpKind kind, std::int32_t microbatch) const {
    for (std::size_t i = 0; i < draft.rows.size(); ++i) {
      const Op& op = draft.rows[i].op;
      if (op.kind == kind && op.microbatch == microbatch && op.replica == ReplicaId{0}) return i;
    }
    ADD_FAILURE() << name(kind) << " " << microbatch;
    return 0;
  }
  void forget(std::size_t waiter, std::size_t producer) {
    const auto is = [&](const Wait& wait) { return index(wait.producer) == producer; };
    EXPECT_EQ(std::erase_if(draft.rows[waiter].waits, is), 1u);
  }
  std::vector<std::string> found() const {
    std::vector<std::string> kinds;
    for (const Violation& violation : verify(draft.build(), count_slots(whole))) {
      kinds.push_back(fmt::format("{}: {}", name(violation.kind), violation.message));
    }
    return kinds;
  }

  const Program whole = program_of(pipeline("bpipe", 4, 8));
  Draft draft{whole};
};

TEST_F(BrokenEviction, IsGoodAtFirst) { EXPECT_THAT(found(), ElementsAre()); }

TEST_F(BrokenEviction, MissesALoad) {
  draft.drop(row(OpKind::load, 2));
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("missing_op: evict 0→3 #2")));
}

TEST_F(BrokenEviction, MissesTheBackwardsWaitForItsLoad) {
  forget(row(OpKind::backward, 2), row(OpKind::load, 2));
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("may start before load 3→0 #2 has ended")));
}

TEST_F(BrokenEviction, MissesTheLoadsWaitForTheSlotThatAnotherLeaves) {
  forget(row(OpKind::load, 2), row(OpKind::evict, 4));
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("with 1 eviction_buffer slots")));
}

TEST_F(BrokenEviction, MissesTheForwardsWaitForTheSlotThatAnotherLeaves) {
  forget(row(OpKind::forward, 2), row(OpKind::evict, 0));
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("with 1 eviction_buffer slots")));
}

TEST_F(BrokenEviction, MissesTheOrderOfTwoLoads) {
  draft.swap(row(OpKind::load, 0), row(OpKind::load, 2));
  EXPECT_FALSE(found().empty());
}

TEST_F(BrokenEviction, MissesAHostedStashsSlot) {
  SlotCounts slots = count_slots(whole);
  ASSERT_EQ(slots[ReplicaId{0}][SlotKind::hosted_stash], 2);
  --slots[ReplicaId{0}][SlotKind::hosted_stash];
  const auto violations = verify(whole, slots);
  ASSERT_FALSE(violations.empty());
  EXPECT_THAT(violations[0].message, HasSubstr("with 1 hosted_stash slots, evict 0→3 #2 "));
}

TEST_F(BrokenEviction, GoesToTheWrongPartner) {
  draft.rest.placement.partner = {DeviceId{2}, DeviceId{3}, DeviceId{0}, DeviceId{1}};
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("malformed: ")));
  draft.rest.placement.partner = {};
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("device 0 has no partner")));
}

}  // namespace
}  // namespace tandem::testing
