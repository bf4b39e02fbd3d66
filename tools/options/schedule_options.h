#pragma once
// The options that describe a schedule, shared by `schedule`, `simulate` and `plan`.

#include <span>
#include <string>
#include <vector>

#include "core/schedule/options.h"
#include "core/schedule/schedule.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

/// --devices, --microbatches and --clip.
std::span<const ScenarioOption> batch_rows();

/// These, and the rows of core/schedule/options.h.
void add_schedule_options(Options& options);
void add_post_validation_option(Options& options);

/// The flags of all of these.
std::vector<std::string> schedule_flags(bool beside_plans = false);
/// Those that only some schedules take.
std::vector<std::string> flags_of_some_schedules();
const ScheduleOption& post_validation_option();

/// What is done with options that the schedule does not take: they may be for others of several.
enum class OtherOptions : bool { refused, passed_over };

/// What the rows' options say, with the schedule's defaults. Throws UsageError.
ScheduleRequest schedule_options_of(const GivenOptions& given, const ScheduleTraits& traits,
                                    OtherOptions others = OtherOptions::refused);

/// The whole request, with its devices and microbatches. Throws UsageError, also where they are
/// missing.
ScheduleRequest schedule_request(const GivenOptions& given, const ScheduleTraits& traits,
                                 OtherOptions others = OtherOptions::refused);

}  // namespace tandem::tools
