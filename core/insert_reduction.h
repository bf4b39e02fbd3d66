#pragma once
// Pass: sums of gradients across devices, before the updates that need them.

#include "core/schedule.h"

namespace tandem {

/// Before each update puts `reduce_tied` where the stage's part shares parameters with another, and
/// `reduce_gradient` where its part has replicas or the pipeline has width.
void insert_reduction(Schedule& schedule);

}  // namespace tandem
