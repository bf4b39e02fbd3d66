#pragma once
// A schedule that somebody brings as a text: what a row of the registry says of others is read from
// its ops.

#include <optional>
#include <string>

#include "core/schedule/schedule.h"

namespace tandem {

/// The schedule with what the request asks for and the text may leave out: tied stages, full
/// recomputation, sums and the norm. Where the text has one of them, it stays as it is. Throws
/// InputError where the text contradicts the request.
Schedule completed(Schedule schedule, const ScheduleRequest& request);

/// True where it recomputes forwards by ops of its own.
bool recomputes(const Schedule& schedule);

/// By the staleness of its ops, and by what they read. REQUIRES: verify() has nothing against its
/// program.
WeightSemantics weight_semantics(const Schedule& schedule);

/// Why a schedule whose program is right can't be trained: names the op or the stage. Empty: it
/// can, and a serial reference has the same bits. REQUIRES: as weight_semantics().
std::optional<std::string> reason_not_trained(const Schedule& schedule);

}  // namespace tandem
