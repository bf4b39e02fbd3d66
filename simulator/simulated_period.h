#pragma once
// simulated_period_s(): a program that many cost tables are asked of.

#include "core/program/cost.h"
#include "core/program/program.h"
#include "simulator/compiled/compiled_program.h"

namespace tandem {

/// SimulationResult::period_s() alone; `compiled` is of `program`, once for all tables. Requires
/// and throws what simulate() does.
double simulated_period_s(const Program& program, const CompiledProgram& compiled,
                          const CostTable& costs);

}  // namespace tandem
