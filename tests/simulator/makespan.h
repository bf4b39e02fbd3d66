#pragma once
// What the tests of critical paths share: the end of a run, and how far to enlarge its prices.

#include <algorithm>
#include <cstdint>

#include "core/program/run.h"
#include "simulator/engine/simulated_machine.h"

namespace tandem::testing {

/// So many times as large, a millionth of a price is whole nanoseconds.
inline constexpr std::int64_t kMillion = 1'000'000;

inline Duration makespan(const Program& program, const CostTable& costs, std::int64_t batches,
                         Timeline* recorder = nullptr) {
  SimulatedMachine machine(program, costs, recorder);
  run(program, program.order(), batches, machine);
  Duration end{};
  for (const DeviceTally& tally : machine.tallies()) end = std::max(end, tally.last_end);
  return end;
}

}  // namespace tandem::testing
