#pragma once
// What of a device's memory no plan may fill, for people and as JSON.

#include <string>

#include "core/memory/reserve.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// What "fits" means, a line with its end.
std::string reserve_line(const Reserve& reserve);
Json reserve_json(const Reserve& reserve);

}  // namespace tandem::tools
