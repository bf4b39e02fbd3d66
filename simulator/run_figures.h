#pragma once
// Figures of a run by themselves: what simulate() gathers, for those who need a part of it.

#include "core/program/cost.h"
#include "core/program/program.h"
#include "simulator/compiled/compiled_program.h"
#include "simulator/engine/simulated_machine.h"
#include "simulator/simulation_result.h"

namespace tandem {

/// Fills in what the tallies of a whole run say: all of `result` but the endless run and the
/// timeline.
void set_devices(const Program& program, const DeviceTallies& tallies,
                 double activation_after_input, SimulationResult& result);

/// SimulationResult::period_s() alone, of a program that many cost tables are asked of; `compiled`
/// is of `program`, once for all tables. Requires and throws what simulate() does.
double simulated_period_s(const Program& program, const CompiledProgram& compiled,
                          const CostTable& costs);

}  // namespace tandem
