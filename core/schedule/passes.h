#pragma once
// Passes over a schedule: ops that requests ask for and generators leave out.

#include "core/schedule/schedule.h"

namespace tandem {

/// Puts a `recompute` of the same microbatch and staleness before each backward (or
/// backward_input). No stash waits for a backward then, and none is evicted.
void insert_recompute(Schedule& schedule);

/// Before each update puts `reduce_tied` where the op's stage shares parameters with another,
/// and `reduce_gradient` where that stage has replicas or the pipeline has width; then, if asked,
/// `reduce_norm`, which all stages share. REQUIRES for the norm: all stages update for the same
/// microbatches.
void insert_reduction(Schedule& schedule, bool global_norm);

/// Zero bubble's post-validation: every update steps as if its gradients were finite and not to be
/// clipped, and `validate` of its stage settles it once the norm is known. The forwards that a
/// device's order begins with run before that, on weights that may have to be made again: they move
/// to the end of the body before, a batch ahead, and the validates of the device follow them, in
/// the order of the model. Fewer of them where one would take its input from a forward that is
/// validated already: what is done again must be fed by what is done again, or a rollback would
/// wait for itself. REQUIRES: vanilla weights, one `reduce_norm` and one update a batch.
void insert_validation(Schedule& schedule);

/// Makes a program of forwards alone of the same placement: each microbatch once through the model,
/// in the order in which its device
/// takes them, with the weights as they are. REQUIRES: sequences are whole.
void keep_forwards(Schedule& schedule);

}  // namespace tandem
