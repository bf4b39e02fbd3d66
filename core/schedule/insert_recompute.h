#pragma once
// Pass: a recomputation before each backward.

#include "core/schedule/schedule.h"

namespace tandem {

/// Puts a `recompute` of the same microbatch and staleness before each backward (or
/// backward_input). No stash waits for a backward then, and none is evicted.
void insert_recompute(Schedule& schedule);

}  // namespace tandem
