#pragma once
// A schedule that a user brings: in our notation, or in a format that has an importer.

#include <string>

#include "core/import/importers.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// In whichever of these forms. Throws InputError.
Schedule read_schedule(const std::string& path);

/// Throws InputError where it is not in that format. REQUIRES: the importer gives schedules.
Schedule read_schedule_as(const Importer& importer, const std::string& path);

/// Refuses a program that would compute something else than its schedule's batches: throws
/// InfeasibleError, the culprits marked in their devices' orders.
void check_right(const Schedule& schedule, const Program& program);

/// Throws InputError with the reason when a schedule whose program is right can't be trained.
void check_trained(const Schedule& schedule);

}  // namespace tandem
