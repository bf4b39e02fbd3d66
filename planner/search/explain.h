#pragma once
// The result of a search in words.

#include <string>
#include <vector>

#include "core/base/units.h"
#include "planner/search/search.h"

namespace tandem {

/// To the nearest nanosecond.
Duration as_duration(double seconds);
/// "1.2 ms more", "1.2 ms less", "the same".
std::string print_difference(Duration difference);

/// "needs 65.2 MiB on device 0, 1.2 MiB too much (largest: optimizer, 30.1 MiB)".
std::string explain(const MemoryMiss& miss);

/// Why the first of `ranked` is chosen: what the second loses and where, what one device would do,
/// what its weight semantics are. A sentence a line. REQUIRES: a ranked plan.
std::vector<std::string> explain_choice(const PlanRequest& request, const PlanResult& result);

/// Rejections of one cause.
struct RejectedGroup {
  RejectCause cause{};
  std::size_t count = 0;
  Rejected nearest;  // the least memory missed; elsewhere the first
};
/// In the order of RejectCause.
std::vector<RejectedGroup> group(const std::vector<Rejected>& rejected);

/// Text of the InfeasibleError when nothing is ranked: the nearest miss, or all reasons.
std::string explain_infeasible(const PlanRequest& request, const PlanResult& result);

}  // namespace tandem
