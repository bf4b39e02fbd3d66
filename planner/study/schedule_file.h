#pragma once
// A schedule that a user brings: in our notation, or as PyTorch's pipelining CSV.

#include <string>

#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// In whichever of the two forms. Throws InputError.
Schedule read_schedule(const std::string& path);

/// Throws InputError where it is not that.
Schedule read_pytorch_csv(const std::string& path);

/// Refuses a program that would compute something else than its schedule's batches: throws
/// InfeasibleError, the culprits marked in their devices' orders.
void check_right(const Schedule& schedule, const Program& program);

/// Throws InputError with the reason when a schedule whose program is right can't be trained.
void check_trained(const Schedule& schedule);

}  // namespace tandem
