#include "simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/error.h"
#include "core/graph.h"

namespace tandem {

namespace {

/// No run may outlast the clock: its whole work, done one op after another, must fit. Nor may its
/// microbatches outrun their counter, which costs of zero would let them.
void check_fits_clock(const Program& program, const CostTable& costs, std::int64_t batches) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  if (batches > kMost / program.microbatches()) {
    throw InputError(fmt::format("{} batches of {} microbatches are too many to count", batches,
                                 program.microbatches()));
  }
  long double one_body = 0.0L;
  for (const Instruction& instruction : program.instructions()) {
    one_body += static_cast<long double>(costs[instruction.cost].count());
  }
  const long double longest = one_body * (static_cast<long double>(batches) + program.ramp() + 1);
  if (longest >= static_cast<long double>(std::numeric_limits<std::int64_t>::max()) / 2) {
    throw InputError(
        "the run is too long to count in nanoseconds (292 years): fewer batches, or smaller costs");
  }
}

void run_to_the_end(const Program& program, std::int64_t batches, SimulatedMachine& machine,
                    bool skip_cycles) {
  // The last bodies switch instances off; a cycle may only be skipped before them.
  const std::int64_t last_full = batches - 1 - program.ramp();
  CycleFinder finder;
  bool looking = skip_cycles;
  for (std::int64_t body = -program.ramp(); body < batches; ++body) {
    run_body(program, program.order(), body, batches, machine);
    if (!looking || body < 0 || body >= last_full) continue;
    const auto steady = finder.after(body, machine);
    looking = !finder.gave_up();
    if (!steady) continue;
    const std::int64_t cycles = (last_full - body) / steady->cycle_batches;
    machine.skip(cycles, cycles * steady->cycle_batches, steady->cycle, steady->per_cycle);
    body += cycles * steady->cycle_batches;
    looking = false;
  }
}

void set_period(const Program& program, const CostTable& costs, SimulationResult& result) {
  if (const auto steady = find_steady_state(program, costs)) {
    result.cycle = steady->cycle;
    result.cycle_batches = steady->cycle_batches;
    result.steady_from_batch = steady->from_batch;
    return;
  }
  result.exact_cycle = false;
  result.cycle = Duration(std::llround(maximum_cycle_ratio(program, costs)));
}

}  // namespace

SimulationResult simulate(const Program& program, const CostTable& costs,
                          const SimulationRequest& request) {
  check_fits_clock(program, costs, request.batches);
  SimulationResult result;
  if (request.record) result.timeline.emplace();
  SimulatedMachine machine(program, costs, request.record ? &*result.timeline : nullptr);
  run_to_the_end(program, request.batches, machine, !request.record);
  const Table<DeviceId, double> peaks = peak_activations(program, request.activation_after_input);
  result.devices.resize(program.placement().devices);
  for (const DeviceTally& tally : machine.tallies()) {
    result.makespan = std::max(result.makespan, tally.last_end);
    if (tally.first_start <= tally.last_end) {
      result.span = std::max(result.span, tally.last_end - tally.first_start);
    }
    result.ideal = std::max(result.ideal, tally.useful);
  }
  for (const DeviceId device : ids(result.devices)) {
    const DeviceTally& tally = machine.tallies()[device];
    result.devices[device] = {.busy = tally.busy,
                              .bubble = result.makespan - tally.busy,
                              .exposed_communication = tally.exposed_communication,
                              .peak_activations = peaks[device],
                              .weight_versions = 1};
  }
  for (const Instruction& instruction : program.instructions()) {
    if (!reads_weights(instruction.op.kind)) continue;
    std::int32_t& versions =
        result.devices[program.placement().device[instruction.op.stage]].weight_versions;
    versions = std::max(versions, 1 + instruction.op.staleness);
  }
  set_period(program, costs, result);
  return result;
}

}  // namespace tandem
