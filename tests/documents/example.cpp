#include <iostream>

#include "core/lower/lower.h"
#include "simulator/simulate.h"
#include "traces/picture.h"

int main() {
  using namespace tandem;
  const auto schedule = make_schedule(find_schedule("zb-h1"), {.devices = 4, .microbatches = 8});
  const Program program = lower(schedule);
  const CostTable costs = price(program, [](const CostKey& key) {
    return Duration(is_compute(key.kind) ? 1'000'000 : 0);  // nanoseconds
  });
  const SimulationResult run = simulate(program, costs, {.record = true});
  std::cout << picture(program, *run.timeline) << print_duration(run.makespan) << " a batch\n";
}
