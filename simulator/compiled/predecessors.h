#pragma once
// Inside of the compiler: what precedes each instruction. Nobody else includes this.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/program/program.h"
#include "simulator/engine/carry_over_state.h"

namespace tandem::compiling {

/// What precedes an instruction: another one of its body, or a value of the state.
using Ref = std::uint32_t;
inline constexpr Ref kState = Ref{1} << 31u;
inline constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

constexpr bool in_body(Ref ref) { return (ref & kState) == 0; }

/// A lane, as far as it was walked.
struct OnLane {
  Ref last = 0;      // on it, or what a body finds there
  LaneId partner{};  // the other end of its link; else itself
  std::uint16_t device = 0;
  bool computes = false;
  // The first and the last op on it that is no transfer and no sum. These are a device's
  // own ops.
  std::uint32_t first_own = kNobody, last_own = kNobody;
  bool late = false;  // the first on it is an own op that works on a later batch

  void note(std::uint32_t i, bool own) {
    first_own = std::min(first_own, own ? i : kNobody);
    last_own = own ? i : last_own;
  }
};
using OnLanes = Table<LaneId, OnLane>;

/// Walks the instructions in order and says what each waits for.
class Predecessors {
 public:
  /// `pair_links`: the two ends of a link are one to wait for, on the assumption that they always
  /// hold the same transfers, as they do where lower() made them.
  Predecessors(const Program& program, const CarryOverState& carry_over, bool pair_links,
               OnLanes& on)
      : program_(program),
        carry_over_(carry_over),
        pair_links_(pair_links),
        on_(on),
        last_waiter_(carry_over.size(), kNobody) {
    for (const LaneId lane : ids(program.lanes())) {
      const Lane& what = program.lanes()[lane];
      on_[lane] = {.last = state_of(lane),
                   .partner = lane,
                   .device = static_cast<std::uint16_t>(index(what.device)),
                   .computes = what.kind == LaneKind::compute};
    }
  }

  /// Of an instruction: its lanes' predecessors, the first lane's first, then what it waits for;
  /// each once. Waits that its lane's earlier waits imply are left out.
  struct Of {
    std::vector<Ref> all;
    std::size_t by_lanes = 0;  // how many of them
    std::vector<std::pair<Ref, InstructionId>> waits;
  };
  const Of& of(std::uint32_t i, const Instruction& instruction) {
    of_.all.clear();
    of_.waits.clear();
    const auto lanes = program_.lanes(instruction);
    if (pair_links_ && lanes.size() == 2 && is_transfer(instruction.op.kind)) pair(lanes);
    for (const LaneId lane : lanes) {
      add(std::exchange(on_[lane].last, i));
      pairs_hold_ = pairs_hold_ && std::ranges::count(lanes, on_[lane].partner) == 1;
    }
    of_.by_lanes = of_.all.size();
    // What may be switched off implies nothing.
    const bool stays = instruction.op.microbatch < program_.microbatches();
    for (const Wait& wait : program_.waits(instruction)) {
      const Ref ref = wait.lag == 0 ? static_cast<Ref>(index(wait.producer)) : state_of(wait);
      if (!in_body(ref) && !lanes.empty() && stays) {
        const auto lane = static_cast<std::uint32_t>(index(lanes.front()));
        if (std::exchange(last_waiter_[ref & ~kState], lane) == lane) continue;
      }
      add(ref);
      of_.waits.emplace_back(ref, wait.producer);
    }
    return of_;
  }

  /// What nearly all instructions are: on one lane, or on the two ends of a link, and waiting for
  /// one of their own body at most. Theirs without a branch that depends on their kinds, whose mix
  /// no processor foretells.
  struct Plain {
    Ref first, second;  // the same where there is no other
  };
  /// Empty, and nothing done, where the instruction is none of them.
  std::optional<Plain> plain(std::uint32_t i, const Instruction& instruction) {
    const std::uint32_t lanes = instruction.lane_count, waits = instruction.wait_count;
    if (lanes < 1 || lanes > 2 || waits > 1) return std::nullopt;
    const LaneId* const lane = program_.lanes(instruction).data();
    OnLane &one = on_[lane[0]], &other = on_[lane[lanes - 1]];
    const Ref first = one.last;
    if (first != other.last || !in_body(first)) return std::nullopt;
    Ref second = first;
    if (waits == 1) {
      const Wait& wait = program_.waits(instruction).front();
      if (wait.lag > 0) return std::nullopt;
      second = static_cast<Ref>(index(wait.producer));
    }
    one.last = other.last = i;
    // On a lane with a partner alone, or on two lanes that are no partners.
    const LaneId here = lane[0], there = lane[lanes - 1];
    if (one.partner != there && (one.partner != here || other.partner != there))
      pairs_hold_ = false;
    return Plain{first, second};
  }

  /// Once all are walked: the ends of links that were taken for one did hold the same transfers.
  bool pairs_hold() const { return pairs_hold_; }

 private:
  /// Of two lanes that nothing was on so far.
  void pair(std::span<const LaneId> lanes) {
    OnLane &sends = on_[lanes[0]], &receives = on_[lanes[1]];
    if (sends.last != state_of(lanes[0]) || receives.last != state_of(lanes[1])) return;
    receives.last = sends.last;
    sends.partner = lanes[1];
    receives.partner = lanes[0];
  }

  void add(Ref ref) {
    if (std::find(of_.all.begin(), of_.all.end(), ref) == of_.all.end()) of_.all.push_back(ref);
  }
  static Ref state_of(LaneId lane) { return kState | static_cast<Ref>(index(lane)); }
  Ref state_of(const Wait& wait) const {
    return kState | static_cast<Ref>(carry_over_.place(wait.producer, wait.lag));
  }

  const Program& program_;
  const CarryOverState& carry_over_;
  const bool pair_links_;
  Of of_;
  OnLanes& on_;
  bool pairs_hold_ = true;
  std::vector<std::uint32_t> last_waiter_;  // of each value of the state: the lane
};

}  // namespace tandem::compiling
