#pragma once
// How rankings tell schedules that train by other weights from the rest.

#include <optional>
#include <string>
#include <string_view>

#include "core/schedule/schedule.h"

namespace tandem::tools {

/// Empty: no semantics have this name.
std::optional<WeightSemantics> semantics_named(std::string_view name);

/// For a column: "vanilla", "delayed", "stashed".
std::string_view short_name(WeightSemantics weights);
/// Behind a schedule's name: ", delayed weights"; empty where there is nothing to say.
std::string weights_mark(WeightSemantics weights);
/// What the other words of the column mean, a line; empty: vanilla.
std::string_view weights_note(WeightSemantics weights);

}  // namespace tandem::tools
