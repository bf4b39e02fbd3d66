#pragma once
// lower(): Schedule → Program, the form that simulator and executor run alike. The schedule has
// what devices compute, the program also what moves between them and what waits for what.

#include <cstdint>

#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// The lanes that a transfer occupies while it runs.
enum class TransferLanes : std::uint8_t {
  shared,  // a transfer occupies a link lane on both devices
  ideal,   // a transfer holds no lane: only time passes, as the published evaluations assume
};

/// Adds transfers, resolves waits, assigns lanes, and finds one global topological order: by start
/// time at unit cost, ties to transfers. Drops waits that a shared lane implies and keeps, of
/// several producers on one lane, only the latest. Throws InfeasibleError with a picture of the
/// wait cycle when the schedule would deadlock, InputError when an op's producer is missing from
/// the schedule.
Program lower(const Schedule& schedule, TransferLanes lanes = TransferLanes::shared);

}  // namespace tandem
