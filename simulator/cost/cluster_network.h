#pragma once
// What a plan's transfers and sums cross on a cluster, for simulate_contended().

#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "core/program/program.h"
#include "simulator/contention/network.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// The flows of all pipelines together: they run in step, so that a transfer is one flow over the
/// links of all of them, each as often as it is crossed, and a sum one over all of its rings. Rates
/// are the assumed fraction of the links'. What has no bytes worth a flow keeps its price.
/// REQUIRES: as cluster_costs() does, of which `program` is priced.
Network cluster_network(const Program& program, const Plan& plan, const ClusterLayout& layout,
                        const AnalyticAssumptions& assumptions);

}  // namespace tandem
