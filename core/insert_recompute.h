#pragma once
// Pass: a recomputation before each backward.

#include "core/schedule.h"

namespace tandem {

/// Puts a `recompute` of the same microbatch and staleness before each backward (or
/// backward_input).
void insert_recompute(Schedule& schedule);

}  // namespace tandem
