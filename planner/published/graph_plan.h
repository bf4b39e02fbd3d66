#pragma once
// A plan of a profiled graph, simulated.

#include "core/import/graph_file.h"
#include "planner/published/pipedream.h"

namespace tandem {

/// Mean seconds of a microbatch in an endless run of PipeDream's schedule (1F1B-RR) on these stages
/// and replicas, each on a device of its own. Forwards and backwards take what was profiled; what
/// crosses a cut takes its bytes over the rate, each way, on links of each device; at the end of a
/// round a stage's replicas sum their gradients, in 4 (m − 1) / m · parameters / rate. REQUIRES:
/// the plan's graph; a rate above 0.
double simulated_microbatch_s(const LayerGraph& graph, const PipeDreamPlan& plan,
                              double bytes_per_s);

}  // namespace tandem
