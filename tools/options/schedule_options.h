#pragma once
// The options that describe a schedule, shared by `schedule`, `simulate` and `plan`.

#include <optional>
#include <span>
#include <string_view>

#include "core/schedule/schedule.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// --devices, --microbatches, --width, --recompute, --clip and what single schedules take.
void add_schedule_options(Options& options);

/// Options that only some schedules take, as their rows of the registry have them.
std::span<const char* const> options_of_some_schedules();
bool takes(const ScheduleTraits& traits, std::string_view option);

/// What --clip says.
struct Clipping {
  bool per_stage = false;  // each stage by the norm of its own gradients
  double norm = 1.0;
};
/// Empty: no --clip. Throws UsageError.
std::optional<Clipping> clipping(const Options& options);
void add_clip_option(Options& options);
void add_post_validation_option(Options& options);
/// Whether updates wait for the norm of all gradients, as --clip has it; empty: no --clip.
std::optional<bool> global_norm(const Options& options);

/// The request, with the defaults of the contract. Throws UsageError for an option that the
/// schedule does not have.
ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits);

}  // namespace tandem::tools
