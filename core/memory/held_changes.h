#pragma once
// What each op of a program adds to the activations that devices hold, in the order of the ops.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"

namespace tandem {

/// Microbatches of one stage that hold each part of a HeldActivation, or a change of these.
struct HeldCounts {
  std::int32_t all = 0, after_input = 0, remade = 0;

  HeldCounts& operator+=(const HeldCounts& other) {
    all += other.all;
    after_input += other.after_input;
    remade += other.remade;
    return *this;
  }
  friend bool operator==(const HeldCounts&, const HeldCounts&) = default;
};

/// The same of each slice of a microbatch; where sequences are whole, one.
using SlicesHeld = std::vector<HeldCounts>;

/// In the units of `held`.
inline double held_by(const HeldCounts& counts, const HeldActivation& held) {
  return counts.all * held.all + counts.after_input * held.after_input +
         counts.remade * held.remade;
}

/// Each op from the start of a run to where all that follows repeats: of the bodies up to 0, the
/// first with all instances on. What that adds it takes away again, and those after it are like it.
/// `program` is a Program, or ScheduledOps.
template <class Ops, class Visit>
void for_each_until_steady(const Ops& program, Visit visit) {
  for (std::int64_t body = -program.ramp(); body <= 0; ++body) {
    const std::int64_t first = -body * program.microbatches();
    for (const auto& instruction : program.instructions()) {
      if (instruction.op.microbatch >= first) visit(instruction.op);
    }
  }
}

/// Calls `change(device, op, HeldCounts)` for what each of these ops changes; an evicted stash is
/// held by the partner.
template <class Ops, class Change>
void each_held_change(const Ops& program, Change change) {
  const Placement& placement = program.placement();
  const bool remakes = std::ranges::any_of(
      program.instructions(), [](const auto& one) { return one.op.kind == OpKind::recompute; });
  const std::int32_t later = remakes || program.forwards_alone() ? -1 : 0;
  for_each_until_steady(program, [&](const Op& op) {
    const DeviceId device = placement.device[op.replica];
    const auto add = [&](HeldCounts what) { change(device, op, what); };
    if (op.kind == OpKind::forward) add({.all = 1, .remade = later});
    if (op.kind == OpKind::recompute) add({.remade = 1});
    if (moves_stash(op.kind)) {
      const DeviceId partner = placement.partner[device];
      const bool leaves = op.kind == OpKind::evict;
      change(leaves ? partner : device, op, HeldCounts{.all = 1});
      change(leaves ? device : partner, op, HeldCounts{.all = -1});
    }
    if (op.kind == OpKind::backward) add({.all = -1});
    if (op.kind == OpKind::backward_input) add({.all = -1, .after_input = 1});
    if (op.kind == OpKind::backward_weight) add({.after_input = -std::int32_t{op.span}});
  });
}

}  // namespace tandem
