#pragma once
// Sensitivity: what a run, or a batch of an endless run, would gain if a device, a link or a layer
// were a little faster. Its time is that of its critical paths, and to first order it changes by
// what these spend on the resource. Where several paths are critical, a gain is what all of them
// gain, and a loss what any of them loses: the derivative has two sides.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/resource.h"
#include "simulator/simulate.h"

namespace tandem {

/// So much time in so many batches.
struct CriticalTime {
  Duration time{};
  std::int64_t batches = 1;
  double seconds_a_batch() const { return to_seconds(time) / static_cast<double>(batches); }
  friend bool operator==(const CriticalTime&, const CriticalTime&) = default;
};

/// What critical paths spend on a resource: the one that spends the least, and the one that spends
/// the most. If all its ops take 1 − ε of their time, the whole becomes shorter by ε · least; if
/// they take 1 + ε, it becomes longer by ε · most. Exact up to the ε at which another path becomes
/// critical.
struct Sensitivity {
  Resource resource;
  CriticalTime least, most;
};

/// Of the makespan of a run of `batches` (as one batch: `CriticalTime::batches` is 1); a row for
/// each of resources(program), in that order.
/// Throws InputError when the run has more than kMostTraced instances (simulator/tight_graph.h).
std::vector<Sensitivity> makespan_sensitivity(const Program& program, const CostTable& costs,
                                              std::int64_t batches);

/// The same of a batch of the endless run. `result` is what simulate() says of it.
/// REQUIRES: result.exact_cycle. Throws InputError when a cycle has more than kMostTraced
/// instances, or takes too long for circuits to be compared exactly.
std::vector<Sensitivity> period_sensitivity(const Program& program, const CostTable& costs,
                                            const SimulationResult& result);

/// The devices, links and sums that are on a critical path; first the one that gains most by being
/// faster, and of equals the one that loses most by being slower.
std::vector<Sensitivity> bottlenecks(const std::vector<Sensitivity>& rows);

/// What limits the endless run once its bottleneck no longer does alone.
struct NextBottleneck {
  Resource resource;
  double from = 0.0;  // the part of its time that the bottleneck is rid of by then, to a thousandth
};
/// `bottleneck` is the first of `bottlenecks` of period_sensitivity(). Empty: the run gains what is
/// said down to no time at all, or where the bottleneck ends was not found. Simulates a dozen
/// times.
std::optional<NextBottleneck> next_bottleneck(const Program& program, const CostTable& costs,
                                              const Sensitivity& bottleneck);

}  // namespace tandem
