#pragma once
// Costs by hand: those of one stage on the command line, or of each stage in a file. Shared by
// `simulate` and `schedule`.

#include <span>
#include <string>
#include <vector>

#include "simulator/cost/plain_costs.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

std::span<const ScenarioOption> cost_rows();
void add_cost_options(Options& options);

/// The flags of them all.
std::vector<std::string> cost_flags();

/// Throws UsageError where they don't say what one microbatch takes, InputError.
PlainCosts plain_costs_of(const GivenOptions& given);

}  // namespace tandem::tools
