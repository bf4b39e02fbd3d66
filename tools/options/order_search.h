#pragma once
// The schedule `search` on the command line: its options, Ctrl-C, progress, and what it says of the
// order it found.

#include <string>

#include "core/schedules/search/order_search.h"
#include "simulator/cost/stage_costs.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

bool is_search(const ScheduleTraits& traits);

struct OrderSearch {
  SearchedOrder found;
  std::int64_t seed = 1;
  double seconds = 0.0;
  bool interrupted = false;  // by Ctrl-C: `found` is the best so far
};

/// Searches with progress on the terminal, until the end, --time-limit or Ctrl-C.
/// Throws InputError when the row refuses the request, or a whole backward of `costs` is not its
/// halves' sum.
OrderSearch search_with_progress(const ScheduleTraits& traits, const ScheduleRequest& request,
                                 const StageCosts& costs);

/// Some lines for people.
std::string search_text(const OrderSearch& search);
Json search_json(const OrderSearch& search);

/// The exit code; says on stderr that it was interrupted, if it was.
int search_exit_code(const OrderSearch& search);

}  // namespace tandem::tools
