#pragma once
// simulate_contended(): what simulate() answers, where transfers and sums share links or slow
// compute down.

#include "simulator/contention/network.h"
#include "simulator/simulate.h"

namespace tandem {

/// Instances that the search for the period of the endless run looks at: seconds.
inline constexpr std::int64_t kMostContended = 20'000'000;

/// `costs` price all that has no flow. Where nothing is shared or slowed it is simulate() with
/// unshared_costs(), to the nanosecond. `exact_cycle` is false where no repetition was seen;
/// `cycle` is then the mean of a long run, rounded. Throws InputError as check(network, program)
/// does, and when the run would last longer than 292 years, or than kEndOfClock and has to be
/// followed to its end: it is recorded, or no repetition was seen.
SimulationResult simulate_contended(const Program& program, const CostTable& costs,
                                    const Network& network, const SimulationRequest& request);

}  // namespace tandem
