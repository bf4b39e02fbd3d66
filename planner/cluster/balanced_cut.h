#pragma once
// A model cut into the stages of a schedule on a cluster, so that the busiest takes the least time.

#include <vector>

#include "core/model/plan.h"
#include "planner/cluster/lowered_schedule.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_layout.h"

namespace tandem {

/// What plans may fill of each device's memory.
Table<DeviceId, Bytes> usable_of(const ClusterLayout& layout,
                                 const AnalyticAssumptions& assumptions);

/// Where each stage has a device for itself: the fastest cut in which every stage fits, if there is
/// one; else the fastest. `cut`: balanced or blocks. Throws ShapeError where there are more stages
/// than parts.
std::vector<LayerRange> balanced_stages(const Plan& plan, const LoweredSchedule& lowered,
                                        const ClusterLayout& layout,
                                        const AnalyticAssumptions& assumptions, StageCut cut);

/// False: no cut fits, not even if each stage is as long as it can be, others empty, and one slot
/// of everything enough. REQUIRES: each stage has a device for itself.
bool may_fit(const Plan& plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
             const AnalyticAssumptions& assumptions);

}  // namespace tandem
