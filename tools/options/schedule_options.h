#pragma once
// The options that describe a schedule, shared by `schedule`, `simulate` and `plan`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/options.h"
#include "core/schedule/schedule.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// --devices, --microbatches, --clip and the rows of core/schedule/options.h.
void add_schedule_options(Options& options);

/// The flags of all of these.
std::vector<std::string> schedule_flags(bool beside_plans = false);
/// Those that only some schedules take.
std::vector<std::string> flags_of_some_schedules();

/// What --clip says.
struct Clipping {
  bool per_stage = false;  // each stage by the norm of its own gradients
  double norm = 1.0;
};
/// Empty: no --clip. Throws UsageError.
std::optional<Clipping> clipping(const Options& options);
void add_clip_option(Options& options);
void add_post_validation_option(Options& options);
bool has_post_validation(const Options& options);
/// Whether updates wait for the norm of all gradients, as --clip has it; empty: no --clip.
std::optional<bool> global_norm(const Options& options);

/// What is done with options that the schedule does not take: they may be for others of several.
enum class OtherOptions : bool { refused, passed_over };

/// What the rows' options say, with the schedule's defaults. Throws UsageError.
ScheduleRequest schedule_options_of(const Options& options, const ScheduleTraits& traits,
                                    OtherOptions others = OtherOptions::refused);

/// The whole request, with its devices and microbatches. Throws UsageError, also where they are
/// missing.
ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits,
                                 OtherOptions others = OtherOptions::refused);

}  // namespace tandem::tools
