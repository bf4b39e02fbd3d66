#pragma once
// Local search: an op of a longest chain is moved to another place of its device's order, again and
// again.

#include <cstdint>

#include "core/schedules/search/order_tree.h"

namespace tandem {

/// Betters `best`, from there on, until it reaches `bound` or the meter ends. Threshold accepting
/// (Dueck and Scheuer, 1990): an order slower than the last one is taken too, as long as it is
/// slower by little, and by ever less.
void improve(const OrderProblem& problem, std::int64_t bound, std::uint64_t seed,
             SearchMeter& meter, FoundOrder& best);

}  // namespace tandem
