#pragma once
// A schedule that somebody brings as a text: what a row of the registry says of others is read from
// its ops.

#include <cstdint>
#include <vector>

#include "core/schedule.h"

namespace tandem {

/// The schedule with what the request asks for and the text may leave out: tied parts, full
/// recomputation, sums and the norm. Where the text has one of them, it stays as it is. Throws
/// InputError where the text contradicts the request.
Schedule completed(Schedule schedule, const ScheduleRequest& request);

/// Whether it recomputes forwards by ops of its own.
bool recomputes(const Schedule& schedule);

/// By the staleness of its ops. REQUIRES: verify() has nothing against its program.
WeightSemantics weight_semantics(const Schedule& schedule);

/// The order in which every stage adds up a batch's weight gradients: microbatches 0 … m−1, each
/// once. Empty: the stages have different orders, so that no serial run has the bits of all.
std::vector<std::int32_t> summing_order(const Schedule& schedule);

/// Of each microbatch of a batch the copy of the model that it passes, from 0: the j-th replicas of
/// all parts are the j-th. Empty: there are parts with other numbers of replicas, or a microbatch
/// changes from one copy to another. REQUIRES: as weight_semantics().
std::vector<std::int32_t> copies_passed(const Schedule& schedule);

}  // namespace tandem
