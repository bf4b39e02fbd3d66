#pragma once
// least_costs(): prices that no run with contention is below, for bounds that are cheap to have.

#include "core/program/cost.h"
#include "simulator/contention/network.h"

namespace tandem {

/// What keys take at the least, whatever they share: unshared_costs() but for the nanosecond to
/// which each flow's time is rounded there, and not where links are shared. With these prices
/// simulate() starts and ends no instruction later than simulate_contended() does, of as many
/// batches: both start it when it heads its lanes, whose order is the program's, and what it waits
/// for has ended, so that nothing which takes longer lets another begin sooner. Nor is the period
/// longer, but for the half nanosecond to which a cycle is rounded. REQUIRES: check() passed.
CostTable least_costs(const Network& network, CostTable costs);

}  // namespace tandem
