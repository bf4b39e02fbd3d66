#include "simulator/device_use.h"

#include <algorithm>

#include "core/memory/memory.h"

namespace tandem {

void set_devices(const Program& program, const DeviceTallies& tallies, double after_input,
                 SimulationResult& result) {
  for (const DeviceTally& tally : tallies) {
    result.makespan = std::max(result.makespan, tally.last_end);
    if (tally.first_start <= tally.last_end)
      result.span = std::max(result.span, tally.last_end - tally.first_start);
    result.ideal = std::max(result.ideal, tally.useful);
  }
  const Table<DeviceId, double> peaks = peak_activations(program, after_input);
  result.devices.resize(program.placement().devices);
  for (const DeviceId device : ids(result.devices)) {
    const DeviceTally& tally = tallies[device];
    result.devices[device] = {.busy = tally.busy,
                              .bubble = result.makespan - tally.busy,
                              .exposed_communication = tally.exposed_communication,
                              .peak_activations = peaks[device],
                              .weight_versions = 1};
  }
  for (const Instruction& instruction : program.instructions()) {
    const Op& op = instruction.op;
    const bool validates = settles_step(op.kind);
    if (!validates && (op.staleness == 0 || !reads_weights(op.kind))) continue;
    std::int32_t& versions = result.devices[program.placement().device[op.replica]].weight_versions;
    versions = std::max(versions, validates ? 2 : 1 + op.staleness);
  }
}

}  // namespace tandem
