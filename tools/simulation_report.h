#pragma once
// A simulation's result for people.

#include "core/program.h"
#include "simulator/simulate.h"

namespace tandem::tools {

void print_summary(const Program& program, const SimulationResult& result, std::int64_t batches);

}  // namespace tandem::tools
