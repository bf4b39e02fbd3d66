#pragma once
// What crosses from stage to stage, on a cluster.

#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// Time for what a part of each sequence of a microbatch hands over from one device of the plan to
/// another. `tensor_sum`: what those who share the target's layers take to sum as much.
Duration boundary_transfer(const Plan& plan, const ClusterLayout& layout,
                           const AnalyticAssumptions& assumptions, SequencePart part,
                           DeviceId source, DeviceId target, Duration tensor_sum);

}  // namespace tandem
