#pragma once
// The schedule `search`: for uneven stages, links and caps of memory, an order that beats every
// named one, or how far from the best one it can be at most.

#include <cstdint>
#include <string>

#include "core/schedule/schedule.h"
#include "core/schedules/search/search_meter.h"

namespace tandem {

struct SearchedOrder {
  Schedule schedule;
  Duration makespan{};
  Duration bound{};   // no order of these stages takes less
  std::string named;  // the fastest named schedule that keeps the cap; empty: none that was tried
  Duration named_makespan{};
  std::int64_t orders = 0;  // looked at, whole or begun
  bool stopped = false;     // by the control, before the effort was spent

  bool optimal() const { return makespan == bound; }
  bool is_named() const { return !named.empty() && makespan == named_makespan; }
  /// Of the makespan: the best order takes no less than so much of it less. 0 … 1
  double gap() const;
  /// Of the fastest named schedule's makespan, what is saved; 0 where there is none.
  double gain() const;
};

/// The best order found for a request: one stage a device, in a line, vanilla semantics; one batch
/// from the first op's start to the last update's end. Sums over replicas, the norm and
/// recomputations before the gradient's arrival are not counted.
/// REQUIRES: a request that the row `search` accepts.
SearchedOrder search_order(const ScheduleRequest& request, const SearchControl& control = {});

}  // namespace tandem
