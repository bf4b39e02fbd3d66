#pragma once
// Plans near to one that doesn't fit, judged by memory alone: no profile is needed.

#include <string>
#include <vector>

#include "core/plan.h"
#include "planner/stage_memory.h"

namespace tandem {

/// A plan that fits, and what sets it apart.
struct Alternative {
  Plan plan;                         // stages set, predictions empty but for the bytes
  std::vector<std::string> changes;  // "recompute full", "microbatches 2 x 16", "5 stages"
  Bytes peak_bytes = 0;              // of the fullest device
};

/// The plans that fit `limit` bytes a device with the fewest changes, of: the cut, less extra in
/// flight, recomputation, a smaller microbatch (the same global batch), another schedule that can
/// be trained and delays no weights that this one doesn't, up to twice the stages. Of each kind of
/// change the mildest: the largest microbatch, the fewest stages, then the schedule that keeps most
/// in memory. Empty: none fits. REQUIRES: one stage a device.
std::vector<Alternative> nearest_fits(const Plan& plan, Bytes limit);

}  // namespace tandem
