#pragma once
// Prices of a plan's ops on a cluster: layers by their roofline, transfers and sums by the links
// that they cross.

#include <compare>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Which device of a cluster is which of a plan.
enum class DeviceOrder : std::uint8_t {
  replicas_first,  // the replicas of a stage stand together: stage s, replica r on s · width + r
  stages_first,    // the stages of a pipeline do: on r · depth + s
};
std::string_view name(DeviceOrder order);

/// The ways through a cluster, each looked for once and kept: to be used by one thread. The cluster
/// must outlive it.
class ClusterWays {
 public:
  explicit ClusterWays(const Cluster& cluster) : cluster_(&cluster) {}

  const Cluster& cluster() const { return *cluster_; }
  const Route& between(DeviceId from, DeviceId to);

 private:
  const Cluster* cluster_;
  std::map<std::pair<DeviceId, DeviceId>, Route> known_;
};

/// `width` pipelines of `depth` devices on a cluster. To be used by one thread. REQUIRES: the
/// cluster has as many devices, and outlives it.
class ClusterLayout {
 public:
  ClusterLayout(const Cluster& cluster, std::size_t width, std::size_t depth, DeviceOrder order,
                std::size_t tensor = 1);
  /// Several layouts of one cluster share its ways.
  ClusterLayout(std::shared_ptr<ClusterWays> ways, std::size_t width, std::size_t depth,
                DeviceOrder order, std::size_t tensor);

  const Cluster& cluster() const { return ways_->cluster(); }
  std::size_t width() const { return width_; }
  std::size_t depth() const { return depth_; }
  std::size_t tensor() const { return tensor_; }
  /// The cluster's device for device `device` of pipeline `replica`; of a group, member `member`.
  DeviceId at(DeviceId device, std::size_t replica, std::size_t member = 0) const;

  /// The least memory of the devices that stand for one of the plan.
  Bytes memory(DeviceId device) const;

  /// The ways from one device to another of all pipelines, and of all members of groups.
  std::vector<Route> routes(DeviceId source, DeviceId target) const;
  /// Rings around a group of the cluster's devices, ascending, which share its bytes equally: one
  /// each way; of several nodes with as many members each as many such pairs, up to 32, so that
  /// each member once leads out of its node. None for a single device.
  std::vector<std::vector<Route>> rings(const std::vector<DeviceId>& group) const;
  /// The cluster's devices that hold a stage, or a member's share of it, ascending.
  std::vector<DeviceId> holders(const Placement& placement, StageId stage,
                                std::size_t member) const;

  /// Time of `bytes` from one device to another in all pipelines at once, until the last has them:
  /// what several of them cross is shared equally. A group's members send a share of them each.
  Duration transfer(DeviceId source, DeviceId target, Bytes bytes, double link_fraction) const;

  /// For each group of devices, ascending, the time to sum `bytes` of it around its rings, all
  /// groups at once: links that several rings cross are shared equally.
  std::vector<Duration> all_reduce(const std::vector<std::vector<DeviceId>>& groups,
                                   const std::vector<Bytes>& bytes, double link_fraction) const;

 private:
  /// What one of those who send at once gets: bytes a second, and how long the first of them takes.
  struct Share {
    double rate = 0.0;
    Duration latency{};
    friend auto operator<=>(const Share&, const Share&) = default;
  };
  using Groups = std::vector<std::vector<DeviceId>>;

  const Route& way(DeviceId from, DeviceId to) const { return ways_->between(from, to); }
  /// Of all pipelines and members of groups, without repeats.
  const std::vector<Share>& shares(DeviceId source, DeviceId target) const;
  /// Of each group, around its rings.
  const std::vector<Share>& shares(const Groups& groups) const;

  std::shared_ptr<ClusterWays> ways_;
  std::size_t width_, depth_, tensor_;
  DeviceOrder order_;
  // Looked for once and kept, for prices are asked again with other assumptions.
  mutable std::map<std::pair<DeviceId, DeviceId>, std::vector<Share>> transfers_;
  mutable std::map<Groups, std::vector<Share>> sums_;
};

/// Replicas that share out the optimizer's state of each stage: all, or one holds all of it.
std::int32_t optimizer_shards(const Plan& plan, const AnalyticAssumptions& assumptions);

/// The prices. A stage takes as long as on the slowest of the devices that hold it. Gradients of a
/// stage are summed by all devices that hold it, those of tied stages by both ends; the norm takes
/// a pass over the largest stage's gradients and a tree of latencies. Where the width shares out
/// the optimizer's state, a sum is the first half of its ring, an update is of a share, and the
/// second half of the ring, the updated weights', follows it.
/// REQUIRES: `placement` is that of the plan's schedule, of the layout's depth; the plan has
/// stages.
StageCosts cluster_costs(const Plan& plan, const Placement& placement, const ClusterLayout& layout,
                         const AnalyticAssumptions& assumptions);

/// Layer times on device `device` of the plan: for each kind of device that stands for it.
class ClusterLayers {
 public:
  ClusterLayers(const Plan& plan, const ClusterLayout& layout,
                const AnalyticAssumptions& assumptions);
  /// Layers as the slowest of the devices that stand for it computes them: slowest for that range.
  const LayerTimes& slowest(DeviceId device, LayerRange range) const;
  StageTimes of(DeviceId device, LayerRange range) const {
    return slowest(device, range).of(range);
  }
  /// To sum a boundary's values over those that share its layers.
  Duration tensor_sum(DeviceId device) const { return tensor_sums_[index(device)]; }

 private:
  std::vector<Duration> tensor_sums_;
  std::vector<LayerTimes> kinds_;
  Table<DeviceId, std::vector<std::size_t>> of_device_;  // into kinds_
};

}  // namespace tandem
