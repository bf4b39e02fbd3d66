// Good programs, broken on purpose in every way that lower() could get wrong: verify() must object
// to each one. Where a break may be harmless (a wait that others imply), a brute-force unrolling
// decides, and verify() must agree both ways.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "core/verify/verify.h"
#include "tests/core/draft.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

struct Case {
  std::string name;
  Program program;
  SlotCounts slots;          // the fewest that hold
  std::int64_t batches = 0;  // runs of up to so many tell
};

/// The ways a row can be asked. Tied stages need their replicas in pairs, so not where there are
/// any.
std::vector<ScheduleRequest> requests(const ScheduleTraits& row) {
  const std::vector<std::vector<std::uint16_t>> replicas{{}, {1}, {1, 1}, {2, 1}, {2, 1, 1}};
  std::vector<ScheduleRequest> all;
  const auto add = [&](const ScheduleRequest& request) {
    if (!reason_against(row, request)) all.push_back(request);
  };
  constexpr std::pair<std::uint16_t, std::int32_t> kSizes[] = {
      {1, 1}, {2, 2}, {2, 3}, {3, 4}, {4, 4}};
  for (auto [devices, microbatches] : kSizes) {
    ScheduleRequest plain = request_for(devices, microbatches);
    // Two streams that meet take no fewer.
    if (reason_against(row, plain) && devices < 3) plain.microbatches = microbatches = 2 * devices;
    if (row.replicas_per_device == 0) plain.chunks = 2;
    if (takes(row, "replicas") && devices > 2) plain.replicas = replicas[devices];
    add(plain);
    if (takes(row, "vertical-sync")) {
      plain.vertical_sync = true;
      add(plain);
      plain.vertical_sync = false;
    }
    ScheduleRequest request = plain;
    request.recompute = Recompute::stage;
    add(request);
    request = plain;
    request.global_norm = true;
    add(request);
    request.post_validation = true;
    if (devices == 2 && microbatches == 2) add(request);
    if (row.replicas_per_device > 1 || !plain.replicas.empty() || devices > 3) continue;
    if (row.replicas_per_device == 0 && devices > 2) continue;
    request = plain;
    request.width = 2;
    add(request);
    request = plain;
    request.tied_embeddings = true;
    add(request);
    request.global_norm = true;
    request.width = 2;
    add(request);
    request = plain;
    request.extra_in_flight = 1;
    if (takes(row, "extra-in-flight")) add(request);
    request = plain;
    request.slices.count = 2;
    if (!takes(row, "slices")) continue;
    add(request);
    request.recompute = Recompute::stage;
    add(request);
  }
  return all;
}

Case make_case(const ScheduleTraits& row, const ScheduleRequest& request, TransferLanes lanes) {
  Program program = lower(make_schedule(row, request), lanes);
  const std::int64_t batches = program.ramp() + 4;
  SlotCounts slots = least_slots(program, batches);
  std::string name = fmt::format(
      "{} p{} m{} width{}{}{}{}{}{}", row.name, request.devices, request.microbatches,
      request.width, request.recompute == Recompute::stage ? " recompute" : "",
      request.vertical_sync ? " sync" : "",
      fmt::format("{}{}", request.tied_embeddings ? " tied" : "",
                  request.post_validation ? " validated"
                  : request.global_norm   ? " norm"
                                          : ""),
      request.extra_in_flight > 0 ? fmt::format(" extra{}", request.extra_in_flight) : "",
      lanes == TransferLanes::ideal ? " ideal" : "");
  return {std::move(name), std::move(program), std::move(slots), batches};
}

class BrokenProgram : public ::testing::TestWithParam<std::string_view> {
 protected:
  static std::vector<Case> cases() {
    std::vector<Case> all;
    const ScheduleTraits& row = find_schedule(GetParam());
    const std::vector<ScheduleRequest> asked = requests(row);
    std::size_t nth = 0;
    // A sanitizer looks for other faults than these: it sees some, from the last, which has most
    // options and waits, to the first.
    for (const ScheduleRequest& request : asked | std::views::reverse) {
      if (kSanitized && nth++ % 8 != 0) continue;
      all.push_back(make_case(row, request, TransferLanes::shared));
      const bool plain = request.recompute == Recompute::none && request.devices == 2;
      if (plain) all.push_back(make_case(row, request, TransferLanes::ideal));
    }
    return all;
  }

  void SetUp() override {
    const auto given = ::testing::UnitTest::GetInstance()->random_seed();
    seed_ = static_cast<std::uint64_t>(given) + 1;
    random_.seed(seed_);
  }

  /// Breaks at a few of a program's `size` instructions, in a random order: at more of them until
  /// one has been caught, so that no draw leaves a schedule without.
  template <typename Break>
  void break_at_some(std::size_t size, const Break& break_at) {
    constexpr std::size_t kSome = 4;
    std::vector<std::size_t> all(size);
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::shuffle(all.begin(), all.end(), random_);
    for (std::size_t tried = 0; tried < size && (tried < kSome || caught_ == 0); ++tried)
      break_at(all[tried]);
  }

  void expect_caught(const Case& good, const Draft& broken, const std::string& what) {
    ++caught_;
    EXPECT_FALSE(verify(broken.build(), good.slots).empty())
        << good.name << ", " << what << ", seed " << seed_;
  }

  void expect_as_unrolled(const Case& good, const Draft& broken, const std::string& what) {
    const Program program = broken.build();
    std::vector<std::string> harm;
    const std::int64_t more = std::max(0, program.ramp() - good.program.ramp());
    for (std::int64_t batches = 1; batches <= good.batches + more && harm.empty(); ++batches) {
      harm = faults(program, good.slots, batches);
    }
    const std::vector<Violation> found = verify(program, good.slots);
    EXPECT_EQ(found.empty(), harm.empty())
        << good.name << ", " << what << ", seed " << seed_
        << "\nverify: " << (found.empty() ? "nothing" : found[0].message)
        << "\nunrolled: " << (harm.empty() ? "nothing" : harm[0]);
    ++(harm.empty() ? harmless_ : caught_);
  }

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  int caught_ = 0, harmless_ = 0;
};

TEST_P(BrokenProgram, IsGoodBeforeItIsBroken) {
  for (const Case& good : cases()) {
    // Where chunks go round with late weight gradients, or slices go back in reverse, the count may
    // be a slot too high.
    if (GetParam() == "interleaved-zb" || GetParam() == "seq1f1b-zb") {
      EXPECT_TRUE(faults(good.program, count_slots(good.program), good.batches).empty());
    } else {
      EXPECT_EQ(count_slots(good.program), good.slots) << good.name;
    }
    const auto found = verify(good.program);
    EXPECT_TRUE(found.empty()) << good.name << ": " << found[0].message;
    for (std::int64_t batches = 1; batches <= good.batches; ++batches) {
      const auto harm = faults(good.program, good.slots, batches);
      EXPECT_TRUE(harm.empty()) << good.name << ": " << harm[0];
    }
  }
}

TEST_P(BrokenProgram, WithOneSlotLessIsCaught) {
  for (const Case& good : cases()) {
    for (const ReplicaId replica : ids(good.slots)) {
      if (good.slots[replica].forwards_in_workspace) {
        SlotCounts borrowed = good.slots;
        borrowed[replica].forwards_in_workspace = false;
        EXPECT_FALSE(verify(good.program, borrowed).empty()) << good.name << ": borrowed";
      }
      for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
        if (good.slots[replica].counts[kind] == 0) continue;
        SlotCounts fewer = good.slots;
        --fewer[replica].counts[kind];
        const auto found = verify(good.program, fewer);
        EXPECT_FALSE(found.empty())
            << good.name << ": " << name(static_cast<SlotKind>(kind)) << " of " << index(replica);
        for (const Violation& violation : found) {
          const bool version = is_version(static_cast<SlotKind>(kind));
          EXPECT_EQ(violation.kind,
                    version ? ViolationKind::version_overwritten : ViolationKind::slot_overwritten);
        }
      }
    }
  }
}

TEST_P(BrokenProgram, WithoutAWaitIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      for (std::size_t wait = 0; wait < whole.rows[i].waits.size(); ++wait) {
        Draft broken = whole;
        auto& waits = broken.rows[i].waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(wait));
        expect_as_unrolled(good, broken, fmt::format("no wait {} of #{}", wait, i));
      }
    });
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, WithAnotherLagIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      for (std::size_t wait = 0; wait < whole.rows[i].waits.size(); ++wait) {
        Draft broken = whole;
        ++broken.rows[i].waits[wait].lag;
        expect_as_unrolled(good, broken, fmt::format("lag + 1 in wait {} of #{}", wait, i));
        if (broken.rows[i].waits[wait].lag == 1) continue;
        broken.rows[i].waits[wait].lag -= 2;
        expect_as_unrolled(good, broken, fmt::format("lag - 1 in wait {} of #{}", wait, i));
      }
    });
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, InAnotherOrderIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      for (const LaneId lane : whole.rows[i].lanes) {
        std::size_t next = i + 1;
        const auto on_lane = [&](const Draft::Row& row) {
          return std::count(row.lanes.begin(), row.lanes.end(), lane) > 0;
        };
        while (next < whole.rows.size() && !on_lane(whole.rows[next])) ++next;
        if (next == whole.rows.size()) continue;
        Draft broken = whole;
        broken.swap(i, next);
        expect_as_unrolled(good, broken, fmt::format("#{} and #{} swapped on a lane", i, next));
      }
      if (i + 1 == whole.rows.size()) return;
      Draft broken = whole;
      broken.swap(i, i + 1);
      expect_as_unrolled(good, broken, fmt::format("#{} and #{} swapped", i, i + 1));
    });
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, WithAnEarlyUpdateIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    for (std::size_t i = 1; i < whole.rows.size(); ++i) {
      if (whole.rows[i].op.kind != OpKind::update) continue;
      break_at_some(i, [&](std::size_t to) {
        Draft broken = whole;
        broken.move_up(i, to);
        expect_as_unrolled(good, broken, fmt::format("update #{} moved to #{}", i, to));
      });
    }
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, WithAnOpInAnotherBodyIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      Draft broken = whole;
      broken.rows[i].op.microbatch += good.program.microbatches();
      expect_as_unrolled(good, broken, fmt::format("#{} a batch ahead", i));
    });
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, WithAnotherVersionIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      Draft broken = whole;
      Op& op = broken.rows[i].op;
      if (!reads_weights(op.kind)) return;
      ++op.staleness;
      expect_caught(good, broken, fmt::format("staleness + 1 in #{}", i));
      if (op.staleness < 2) return;
      op.staleness = static_cast<std::uint16_t>(op.staleness - 2);
      expect_caught(good, broken, fmt::format("staleness - 1 in #{}", i));
    });
  }
  EXPECT_GT(caught_, 0);
}

TEST_P(BrokenProgram, WithoutAnInstructionIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    for (std::size_t i = 0; i < whole.rows.size(); ++i) {
      // The only one of its stage may be absent.
      const auto alike = [&](const Draft::Row& row) {
        return row.op.kind == OpKind::recompute && row.op.replica == whole.rows[i].op.replica;
      };
      if (alike(whole.rows[i]) && std::ranges::count_if(whole.rows, alike) == 1) continue;
      Draft broken = whole;
      broken.drop(i);
      expect_caught(good, broken, fmt::format("no #{}", i));
    }
  }
}

TEST_P(BrokenProgram, WithAnInstructionTwiceIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    for (std::size_t i = 0; i < whole.rows.size(); ++i) {
      Draft broken = whole;
      broken.repeat(i);
      expect_caught(good, broken, fmt::format("#{} twice", i));
    }
  }
}

TEST_P(BrokenProgram, OnAnotherLaneIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      for (std::size_t place = 0; place < whole.rows[i].lanes.size(); ++place) {
        for (const LaneId lane : ids(good.program.lanes())) {
          const auto& lanes = whole.rows[i].lanes;
          if (std::count(lanes.begin(), lanes.end(), lane) > 0) continue;
          if (whole.rows[i].op.kind == OpKind::update &&
              good.program.lanes()[lane].device == good.program.lanes()[lanes[0]].device) {
            continue;  // an update may stand on either of two lanes
          }
          Draft broken = whole;
          broken.rows[i].lanes[place] = lane;
          expect_caught(good, broken, fmt::format("lane {} of #{}", place, i));
        }
      }
      Draft broken = whole;
      if (is_transfer(broken.rows[i].op.kind) || broken.rows[i].lanes.empty()) return;
      broken.rows[i].lanes.pop_back();
      expect_caught(good, broken, fmt::format("#{} on a lane less", i));
    });
  }
}

TEST_P(BrokenProgram, AtAnotherPriceIsCaught) {
  for (const Case& good : cases()) {
    const Draft whole(good.program);
    break_at_some(whole.rows.size(), [&](std::size_t i) {
      for (const CostId cost : ids(good.program.cost_keys())) {
        if (cost == whole.rows[i].cost) continue;
        Draft broken = whole;
        broken.rows[i].cost = cost;
        expect_caught(good, broken, fmt::format("cost {} for #{}", index(cost), i));
      }
    });
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const ScheduleTraits& row : schedules()) all.push_back(row.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registry, BrokenProgram, ::testing::ValuesIn(names()),
                         [](const auto& instance) {
                           std::string name(instance.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::testing
