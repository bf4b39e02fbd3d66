#pragma once
// Bytes of stages that many plans of one cluster have, each worked out once.

#include <cstdint>
#include <map>
#include <tuple>

#include "core/memory/cluster_assumptions.h"
#include "core/model/plan.h"
#include "planner/search/stage_memory.h"

namespace tandem {

/// Bytes of layer ranges as analytic_stage_bytes() gives them.
RangeBytes analytic_range_bytes(const Plan& plan, const AnalyticAssumptions& assumptions);

/// The same for plans of one model and optimizer, whose assumptions differ in how layers and the
/// optimizer's state are shared out alone. To be used by one thread.
class KnownBytes {
 public:
  /// Good until the next call.
  RangeBytes& of(const Plan& plan, const AnalyticAssumptions& assumptions);

 private:
  std::map<std::tuple<std::int32_t, bool, std::int32_t>, RangeBytes> known_;
};

}  // namespace tandem
