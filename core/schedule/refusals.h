#pragma once
// What can't be asked of schedules by how they use weights: one table, with the reasons.

#include <optional>
#include <string>
#include <string_view>

#include "core/schedule/schedule.h"

namespace tandem {

/// How a schedule uses weights, as its row or its ops say.
struct WeightUse {
  WeightSemantics weights = WeightSemantics::vanilla;
  bool updates_together = true;  // see ScheduleNature
  bool reads_planes = false;     // see ScheduleNature
};

/// Why a schedule that uses weights so can't serve the request: "schedule NAME has …". Empty: it
/// can. `name` as messages print it.
std::optional<std::string> refused(std::string_view name, const WeightUse& use,
                                   const ScheduleRequest& request);

}  // namespace tandem
