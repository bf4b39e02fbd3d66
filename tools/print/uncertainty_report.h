#pragma once
// How the time of a batch varies, for people and as JSON.

#include "planner/study/uncertainty.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

void print_spread(const Spread& spread);
Json spread_json(const Spread& spread);

}  // namespace tandem::tools
