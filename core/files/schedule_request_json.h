#pragma once
// What a schedule is asked for, in JSON: a member of plans and of results for each option that has
// a key (core/schedule/options.h).

#include <nlohmann/json_fwd.hpp>

#include "core/schedule/schedule.h"
#include "core/text/json_reader.h"

namespace tandem {

/// Sets what `object` holds; notes what is wrong with it at its place.
void read_schedule_options(const JsonReader& object, ScheduleRequest& request);

/// Adds what a plan holds: what says nothing is left out, but where a plan always has it.
void write_schedule_options(const ScheduleRequest& request, nlohmann::ordered_json& object);

/// Adds all of it.
void write_all_schedule_options(const ScheduleRequest& request, nlohmann::ordered_json& object);

}  // namespace tandem
