#pragma once
// The plain truth about small programs over a network: every flow by itself, all rates found anew
// at every event by raising them together bit by bit, time not rounded. Written from the
// definitions of simulator/contention/network.h alone.

#include <cstdint>
#include <vector>

#include "core/program/cost.h"
#include "simulator/contention/network.h"

namespace tandem::testing {

/// Of one instance, in nanoseconds from the start of the run.
struct OracleSpan {
  InstructionId id{};
  std::int64_t body = 0;
  long double start = 0.0L, end = 0.0L;
};

/// All instances of a run, in the order of issue. Quadratic: for hundreds of them.
std::vector<OracleSpan> times_over_network(const Program& program, const CostTable& costs,
                                           const Network& network, std::int64_t batches);

/// A flow as it is now.
struct OracleFlow {
  std::vector<std::size_t> links;
  double cap = 0.0, weight = 1.0;
};

/// Max-min fair rates, in bytes per second.
std::vector<long double> max_min_rates(const std::vector<double>& capacities,
                                       const std::vector<OracleFlow>& flows);

}  // namespace tandem::testing
