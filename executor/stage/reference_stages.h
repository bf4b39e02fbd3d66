#pragma once
// What a serial reference has to know of a schedule, read from its ops.

#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "executor/stage/reference.h"

namespace tandem {

/// Of each stage, whose layers are given: what an update covers, which microbatches each replica
/// takes, and in which order each adds their gradients, as the schedule's ops say. So is the
/// staleness of stashed and latest weights; of other semantics it is what their name says.
/// REQUIRES: verify() has nothing against the schedule's program, nor reason_not_trained() against
/// the schedule.
std::vector<ReferenceStage> reference_stages(const Schedule& schedule,
                                             const std::vector<LayerRange>& layers,
                                             WeightSemantics semantics);

}  // namespace tandem
