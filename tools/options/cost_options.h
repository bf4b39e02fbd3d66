#pragma once
// Costs by hand: those of one stage on the command line, or of each stage in a file. Shared by
// `simulate` and `schedule`.

#include <cstddef>
#include <span>

#include "core/memory/memory.h"
#include "simulator/cost/stage_costs.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_cost_options(Options& options);

/// The names of them all.
std::span<const char* const> cost_options();

struct GivenCosts {
  StageCosts times;
  Table<PartId, HeldActivation> held;   // bytes of a microbatch
  bool sized = false;                   // whether any bytes were given
  double activation_after_input = 1.0;  // G/A, where all stages have the same
  Json config = Json::object();
};

/// For a schedule of so many parts on so many devices, `chunks` of them on each.
/// Throws UsageError, InputError.
GivenCosts given_costs(const Options& options, std::size_t parts, std::size_t chunks,
                       std::size_t devices);

/// What an automatic schedule orders by when these costs are simulated.
OrderCosts order_costs(const GivenCosts& given, Recompute recompute);

}  // namespace tandem::tools
