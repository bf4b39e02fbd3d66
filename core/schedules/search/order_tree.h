#pragma once
// The tree of all orders worth a look, each node an order begun: searched to its end, which proves
// the best, or in a beam.

#include <cstdint>

#include "core/schedules/order_problem.h"
#include "core/schedules/search/order_bound.h"
#include "core/schedules/search/search_meter.h"

namespace tandem {

struct FoundOrder {
  Words words;
  std::int64_t makespan = 0;
};

/// Branch and bound, depth first: every order that may be shorter than `best`, which it betters.
/// True: none is shorter. False: the meter ran out before that was known.
bool search_tree(const OrderProblem& problem, OrderBound& bound, SearchMeter& meter,
                 FoundOrder& best);

/// Level by level, only the `width` nodes of the least bound of each. Betters `best` if it can.
void search_beam(const OrderProblem& problem, OrderBound& bound, std::size_t width,
                 SearchMeter& meter, FoundOrder& best);

/// Local search: an op of a longest chain is moved to another place of its device's order, again
/// and again. Betters `best`, from there on, until it reaches `bound` or the meter ends. Threshold
/// accepting (Dueck and Scheuer, 1990): an order slower than the last one is taken too, as long as
/// it is slower by little, and by ever less.
void improve(const OrderProblem& problem, std::int64_t bound, std::uint64_t seed,
             SearchMeter& meter, FoundOrder& best);

}  // namespace tandem
