#pragma once
// A model on a cluster, with nothing measured: stages cut by analytic times, the memory of each
// device, and the shape that is fastest where none is asked for.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "core/program/program.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// What each device holds, and how much it may.
struct ClusterMemory {
  Table<DeviceId, MemoryByClass> memory;
  Table<DeviceId, Bytes> usable;  // of its own, but for the reserve

  bool fits() const;
};

/// A plan ready to be simulated on a cluster.
struct ClusterPlan : ClusterMemory {
  Plan plan;  // complete but for profile and predictions
  Schedule schedule;
  Program program;
  StageCosts costs;
  Table<ReplicaId, StageBytes> bytes;
  Table<DeviceId, Bytes> capacity;  // of the devices
};

/// Bytes of layer ranges as analytic_stage_bytes() gives them.
RangeBytes analytic_range_bytes(const Plan& plan, const AnalyticAssumptions& assumptions);

/// Microbatches of a batch of so many samples, by the plan's width and microbatch size. Throws
/// InputError where it does not come out even.
std::int32_t microbatches_of(std::int64_t global_batch, const Plan& plan);

/// Cuts the model and prices the schedule. A schedule that is ordered by
/// costs is ordered by these. Throws InputError where the schedule can't serve the plan, there are
/// more stages than layers, or the program would be absurdly large. REQUIRES: plan.request.devices
/// and width are the layout's; a registered schedule.
ClusterPlan plan_on_cluster(Plan plan, const ClusterLayout& layout,
                            const AnalyticAssumptions& assumptions,
                            StageCut cut = StageCut::balanced);

/// That of plan_on_cluster(), without its prices.
ClusterMemory memory_on_cluster(const Plan& plan, const ClusterLayout& layout,
                                const AnalyticAssumptions& assumptions, StageCut cut);

/// What is to be decided: all of `plan` but width, depth, stages and, of a global batch, the
/// microbatches.
struct ShapeRequest {
  Plan plan;
  std::optional<std::int64_t> global_batch = {};  // samples of one update; else as many
                                                  // microbatches as `plan` says
  std::optional<std::uint16_t> width = {};        // given; else any that divides the devices
  DeviceOrder order = DeviceOrder::replicas_first;
  StageCut cut = StageCut::balanced;
  bool blocking_transfers = false;  // devices don't compute while they send or receive
};

/// How one width did that was tried.
struct TriedShape {
  std::uint16_t width = 1, depth = 1;
  std::string refusal;         // empty: it was simulated
  double samples_per_s = 0.0;  // of an endless run
  bool fits = false;
};

struct ChosenShape {
  ClusterPlan plan;
  std::vector<TriedShape> tried;  // the chosen one first, then by width
};

/// Of the widths that use all devices, in groups of assumptions.tensor, at least two stages deep
/// where the cluster allows, the fastest one that fits; if none does, the one whose fullest device
/// lacks least. Throws InputError with the reason of the last where all are refused.
ChosenShape choose_shape(const ShapeRequest& request, const Cluster& cluster,
                         const AnalyticAssumptions& assumptions);

}  // namespace tandem
