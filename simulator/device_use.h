#pragma once
// What a run's tallies say of its devices.

#include "simulator/engine/simulated_machine.h"
#include "simulator/simulation_result.h"

namespace tandem {

/// Fills in what the tallies of a whole run say: all of `result` but the endless run and the
/// timeline.
void set_devices(const Program& program, const DeviceTallies& tallies,
                 double activation_after_input, SimulationResult& result);

}  // namespace tandem
