#pragma once
// Inside of count_slots(): which stages' forwards can't borrow a stash slot.

#include <vector>

#include "core/program/program.h"

namespace tandem {

/// Stages of which a forward may run between the recomputation of a microbatch and its last
/// gradient (StageSlots::forwards_in_workspace). REQUIRES: as count_slots().
std::vector<ReplicaId> forwards_in_workspace(const Program& program);

}  // namespace tandem
