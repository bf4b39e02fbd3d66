#pragma once
// Pass: what devices must agree on before the updates that need it: sums of gradients, their norm.

#include "core/schedule/schedule.h"

namespace tandem {

/// Before each update puts `reduce_tied` where the op's stage shares parameters with another,
/// and `reduce_gradient` where that stage has replicas or the pipeline has width; then, if asked,
/// `reduce_norm`, which all stages share. REQUIRES for the norm: all stages update for the same
/// microbatches.
void insert_reduction(Schedule& schedule, bool global_norm);

}  // namespace tandem
