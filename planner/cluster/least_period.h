#pragma once
// least_period(): a time below which no run of a schedule has its period, without a program.

#include <cstdint>

#include "core/base/units.h"
#include "core/schedule/schedule.h"
#include "planner/cluster/schedule_outline.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// The longest way from the first op of device 0 to its last, by what ops wait for within a body
/// and by the order of each device: that device begins the next body behind it. Ops and transfers
/// take what they cost, nobody waits for a link; of sums only that over replicas of the pipeline
/// counts, where all updates are of this body's gradients. Microbatches of other bodies are not
/// waited for. 0: nothing is known of it.
Duration least_period(const Schedule& schedule, const StageCosts& costs);

/// The same of any schedule of an outline, before it is made: what the busiest device computes;
/// where batches flush, the way of the first microbatch to a stage, what that stage's device makes
/// of it and of those behind it, the last gradient's way back, and the first stage's sum and
/// update.
Duration least_period(const ScheduleOutline& outline, std::int32_t width, const StageCosts& costs);

}  // namespace tandem
