#pragma once
// The schedule `search`, within its time and until it is told to stop.

#include <functional>

#include "core/schedules/search/order_search.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// What a search asks of whoever runs it.
struct SearchWatch {
  std::function<bool()> stop = {};     // whether no more than the best so far is wanted; empty: no
  std::function<Duration()> now = {};  // a clock that never goes back; empty: no time is counted
};

bool is_search(const ScheduleTraits& traits);

struct OrderSearch {
  SearchedOrder found;
  std::int64_t seed = 1;
  double seconds = 0.0;
  bool interrupted = false;  // by a stop: `found` is the best so far
};

/// Searches with progress (core/base/progress.h) until the end, the request's time limit or a stop.
/// Throws InputError when the row refuses the request, or a whole backward of `costs` is not its
/// halves' sum.
OrderSearch timed_search(const ScheduleTraits& traits, const ScheduleRequest& request,
                         const StageCosts& costs, const SearchWatch& watch = {});

}  // namespace tandem
