#pragma once
// The checkers of verify(), one a file. Each re-derives what must hold from the program alone.

#include "core/verify/facts.h"
#include "core/verify/order.h"
#include "core/verify/report.h"

namespace tandem::verification {

/// What the checkers of what runs when look at, and tell.
struct Checker {
  const Facts& facts_;
  Order& order_;
  const SlotCounts& slots_;  // none yet where dependencies are checked
  Report& report_;
  const Program& program_ = facts_.program();
};

/// Placement, sizes and spans that the other checkers' tables rest on. False: nothing further can
/// be said.
bool check_shape(const Program& program, Report& report);

/// Slots are counted for each stage.
bool check_sizes(const Program& program, const SlotCounts& slots, Report& report);

/// Every instruction on the lanes and with the cost key that its kind asks for.
void check_lanes(const Facts& facts, Report& report);

/// Waits on what the order holds earlier; else the cycle, if there is one. False: there is no order
/// to reason about.
bool check_order(const Program& program, Report& report);

/// Each stage does all its work on each microbatch once; each edge has its transfers, each update
/// its reductions.
void check_completeness(const Facts& facts, Report& report);

/// Nothing starts before what it needs has ended.
void check_dependencies(const Checker& of);

/// The same version forwards and backwards, or the newest each; made before it is read and not
/// overwritten while it is.
void check_versions(const Checker& of);

/// What an update made before its norm was known can still be made again when it is validated, and
/// what has used it.
void check_post_validation(const Checker& of);

/// No ring slot is taken before its last user has ended, nor borrowed while it has one.
void check_slots(const Checker& of);

}  // namespace tandem::verification
