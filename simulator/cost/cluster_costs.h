#pragma once
// Prices of a plan's ops on a cluster: layers by their roofline, transfers and sums by the links
// that they cross.

#include <cstdint>
#include <vector>

#include "core/model/plan.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_layout.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Replicas that share out the optimizer's state of each stage: all, or one holds all of it.
std::int32_t optimizer_shards(const Plan& plan, const AnalyticAssumptions& assumptions);

/// The prices. A stage takes as long as on the slowest of the devices that hold it. Gradients of a
/// stage are summed by all devices that hold it, those of tied stages by both ends; the norm takes
/// a pass over the largest stage's gradients and a tree of latencies. Where the width shares out
/// the optimizer's state, a sum is the first half of its ring, an update is of a share, and the
/// second half of the ring, the updated weights', follows it. Where the plan's sequences are
/// sliced, each slice has prices of its own.
/// REQUIRES: `placement` is that of the plan's schedule, of the layout's depth; the plan has
/// stages.
StageCosts cluster_costs(const Plan& plan, const Placement& placement, const ClusterLayout& layout,
                         const AnalyticAssumptions& assumptions);

/// No more than these: what is computed, where transfers, sums and what a batch takes beside layers
/// take nothing. REQUIRES: as above.
StageCosts computation_costs(const Plan& plan, const Placement& placement,
                             const ClusterLayout& layout, const AnalyticAssumptions& assumptions);

/// Layer times on device `device` of the plan: for each kind of device that stands for it.
class ClusterLayers {
 public:
  /// Of whole sequences, or of that part of each.
  ClusterLayers(const Plan& plan, const ClusterLayout& layout,
                const AnalyticAssumptions& assumptions, SequencePart part = {});
  /// Layers as the slowest of the devices that stand for it computes them: slowest for that range.
  const LayerTimes& slowest(DeviceId device, LayerRange range) const;
  StageTimes of(DeviceId device, LayerRange range) const {
    return slowest(device, range).of(range);
  }
  /// Whether the same devices stand for both, by what they take.
  bool alike(DeviceId a, DeviceId b) const { return of_device_[a] == of_device_[b]; }
  /// To sum a boundary's values over those that share its layers.
  Duration tensor_sum(DeviceId device) const { return tensor_sums_[index(device)]; }

 private:
  std::vector<Duration> tensor_sums_;
  std::vector<LayerTimes> kinds_;
  Table<DeviceId, std::vector<std::size_t>> of_device_;  // into kinds_
};

/// Layer times of the group of devices that share layers and begin with the cluster's `first`, if
/// no other group were at work: on the fastest of its devices.
LayerTimes layers_alone(const Plan& plan, const ClusterLayout& layout,
                        const AnalyticAssumptions& assumptions, DeviceId first,
                        SequencePart part = {});

}  // namespace tandem
