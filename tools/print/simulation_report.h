#pragma once
// A simulation's result, for people and as JSON (interfaces: `simulate --json`).

#include <string>
#include <vector>

#include "simulator/simulate.h"
#include "tools/options/scenario.h"

namespace tandem::tools {

/// Of an endless run; 0 where it takes no time.
double samples_per_s(const Scenario& scenario, const SimulationResult& result);

/// Shares of the run, all of the busiest device. The rate counts all but forwards and backwards:
/// what is not idle of it is recomputation and updates.
struct BubbleRate {
  double of_run = 0.0, idle = 0.0;
};
BubbleRate bubble_rate(const SimulationResult& result);
/// "12.3 %".
std::string print_percent(double share);

/// `difference`: a line on what the run loses to what is wrong, or nothing.
void print_summary(const Scenario& scenario, const SimulationResult& result, std::int64_t batches,
                   const std::string& difference);
Json result_json(const Scenario& scenario, const SimulationResult& result);
std::vector<std::string> warnings_of(const Scenario& scenario, const SimulationResult& result);

}  // namespace tandem::tools
