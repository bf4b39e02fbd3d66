#pragma once
// What `simulate` is asked about, from whatever source: a plan and its profile, a file of costs, or
// plain costs.

#include <optional>
#include <string>

#include "core/cost.h"
#include "core/memory.h"
#include "core/schedule.h"
#include "tools/json_output.h"
#include "tools/options.h"
#include "tools/order_search.h"

namespace tandem::tools {

struct Scenario {
  Schedule schedule;
  Program program;
  CostTable costs;
  std::int32_t microbatch_size = 1;
  double activation_after_input = 1.0;                   // G/A
  std::optional<Table<DeviceId, MemoryByClass>> memory;  // absent: nothing is known in bytes
  std::optional<Bytes> capacity;                         // of each device
  std::optional<Table<StageId, Bytes>> stash;  // bytes of one microbatch, for the trace's curve
  std::optional<OrderSearch> search;           // of the schedule `search`
  Json config, assumptions;
};

/// The options of the sources above.
void add_scenario_options(Options& options);

/// Throws UsageError, InputError.
Scenario make_scenario(const Options& options);

}  // namespace tandem::tools
