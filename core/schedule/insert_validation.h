#pragma once
// insert_validation(): updates that do not wait for the norm of their gradients.

#include "core/schedule/schedule.h"

namespace tandem {

/// Zero bubble's post-validation: every update steps as if its gradients were finite and not to be
/// clipped, and `validate` of its stage settles it once the norm is known. The forwards that a
/// device's order begins with run before that, on weights that may have to be made again: they move
/// to the end of the body before, a batch ahead, and the validates of the device follow them, in
/// the order of the model. Fewer of them where one would take its input from a forward that is
/// validated already: what is done again must be fed by what is done again, or a rollback would
/// wait for itself. REQUIRES: vanilla weights, one `reduce_norm` and one update a batch.
void insert_validation(Schedule& schedule);

}  // namespace tandem
