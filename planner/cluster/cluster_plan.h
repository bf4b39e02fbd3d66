#pragma once
// A model on a cluster, with nothing measured: stages cut by analytic times, and the memory of each
// device.

#include <cstdint>
#include <functional>
#include <optional>

#include "core/memory/framework_memory.h"
#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "core/program/program.h"
#include "planner/cluster/balanced_cut.h"
#include "planner/cluster/cluster_memo.h"
#include "planner/cluster/known_bytes.h"
#include "planner/cluster/lowered_schedule.h"
#include "planner/cluster/schedule_outline.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// What each device holds, and how much it may.
struct ClusterMemory {
  Table<DeviceId, MemoryByClass> memory;  // by the figure that says what fits
  MemoryFigures figures;
  Table<DeviceId, Bytes> usable;  // of its own, but for the reserve

  /// Bytes that the fullest lacks; none or fewer: it fits.
  Bytes excess() const;
  bool fits() const { return excess() <= 0; }
};

/// Prices and memory of a plan on a cluster.
struct ClusterPrices : ClusterMemory {
  Plan plan;  // complete but for profile and predictions
  StageCosts costs;
  Table<ReplicaId, StageBytes> bytes;
  Table<DeviceId, Bytes> capacity;  // of the devices
};

/// A plan ready to be simulated on a cluster.
struct ClusterPlan : ClusterPrices {
  Schedule schedule;
  Program program;
};

/// Microbatches of a batch of so many samples, by the plan's width and microbatch size. Throws
/// InputError where it does not come out even.
std::int32_t microbatches_of(std::int64_t global_batch, const Plan& plan);

/// Cuts the model and prices the schedule. A schedule that is ordered by
/// costs is ordered by these. Throws InputError where the schedule can't serve the plan, there are
/// more stages than layers, or the program would be absurdly large. REQUIRES: plan.request.devices
/// and width are the layout's; a registered schedule. `known`: null: nothing is kept.
ClusterPlan plan_on_cluster(Plan plan, const ClusterLayout& layout,
                            const AnalyticAssumptions& assumptions,
                            StageCut cut = StageCut::balanced, KnownSchedules* known = nullptr);

/// The plan's schedule, after the plan got its stages; where it orders its ops by costs, by these.
LoweredSchedule schedule_on_cluster(Plan& plan, const ClusterLayout& layout,
                                    const AnalyticAssumptions& assumptions,
                                    StageCut cut = StageCut::balanced);

/// Cuts a plan's stages by its schedule's outline alone, as with the schedule. Throws what
/// plan_on_cluster() does of stages. REQUIRES: a cut that is worked out.
void cut_outline(Plan& plan, const ScheduleOutline& outline, const ClusterLayout& layout,
                 const AnalyticAssumptions& assumptions, StageCut cut, KnownCuts& known);

/// The schedule of a plan with its stages that orders its ops by costs, by these.
LoweredSchedule schedule_by_costs(Plan& plan, const StageCosts& costs);

/// plan_on_cluster() of a schedule that is there, the plan's; empty: it does not fit, or is not
/// `wanted` with its stages at these prices, which is asked before memory is counted to the byte.
/// REQUIRES: it is not ordered by costs, or the cut is given; slices have their lengths.
std::optional<ClusterPrices> prices_if_it_fits(
    Plan plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
    const AnalyticAssumptions& assumptions, KnownBytes& known, StageCut cut,
    const std::function<bool(const Plan&, const StageCosts&)>& wanted);

/// Mean seconds of a batch of an endless run.
double period_s(const LoweredSchedule& lowered, const StageCosts& costs, bool blocking_transfers);

/// That of plan_on_cluster(), without its prices.
ClusterMemory memory_on_cluster(const Plan& plan, const ClusterLayout& layout,
                                const AnalyticAssumptions& assumptions, StageCut cut);

}  // namespace tandem
