#pragma once
// What the schedule `search` found, for people and as JSON.

#include <string>

#include "planner/study/timed_search.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// Some lines for people.
std::string search_text(const OrderSearch& search);
Json search_json(const OrderSearch& search);

/// The exit code; says on stderr that it was interrupted, if it was.
int search_exit_code(const OrderSearch& search);

}  // namespace tandem::tools
