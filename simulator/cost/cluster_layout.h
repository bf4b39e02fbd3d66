#pragma once
// A plan's pipelines laid out on a cluster: which device is which, and what transfers and sums get
// of the links that they cross.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/memory/cluster_assumptions.h"
#include "core/model/calibration.h"
#include "core/model/cluster.h"
#include "core/program/program.h"
#include "simulator/cost/collective_model.h"

namespace tandem {

/// The ways through a cluster, each looked for once and kept: to be used by one thread. The cluster
/// must outlive it.
class ClusterWays {
 public:
  explicit ClusterWays(const Cluster& cluster) : cluster_(&cluster) {}

  const Cluster& cluster() const { return *cluster_; }
  const Route& between(DeviceId from, DeviceId to);
  std::size_t size() const { return known_.size(); }

 private:
  const Cluster* cluster_;
  std::unordered_map<std::uint64_t, Route> known_;  // by both
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

  const DeviceSpec& first_device() const { return cluster()[at(DeviceId{}, 0)]; }
  /// Those of the devices that stand for one of the plan, each once.
  const std::vector<const DeviceSpec*>& kinds(DeviceId device) const { return kinds_[device]; }

  /// Whether any group of devices computes, and sums, as any other: then computation takes as long
  /// in any order.
  bool alike_groups() const;

  /// The least memory of the devices that stand for one of the plan.
  Bytes memory(DeviceId device) const;

  /// Of the cluster's ways, each kept there.
  using Routes = std::vector<const Route*>;
  /// The ways from one device to another of all pipelines, and of all members of groups.
  Routes routes(DeviceId source, DeviceId target) const;
  /// Rings around a group of the cluster's devices, ascending, which share its bytes equally: one
  /// each way; of several nodes with as many members each as many such pairs, up to 32, so that
  /// each member once leads out of its node. None for a single device.
  std::vector<Routes> rings(const std::vector<DeviceId>& group) const;
  /// The cluster's devices that hold a stage, or a member's share of it, ascending.
  std::vector<DeviceId> holders(const Placement& placement, StageId stage,
                                std::size_t member) const;

  /// Time of `bytes` from one device to another in all pipelines at once, until the last has them:
  /// what several of them cross is shared equally. A group's members send a share of them each.
  Duration transfer(DeviceId source, DeviceId target, Bytes bytes,
                    const Calibration& constants) const;

  /// What a group's sum gets within its nodes and between them.
  struct SumWays {
    CollectiveGroup group;
    CollectiveWays ways;
    friend bool operator==(const SumWays&, const SumWays&) = default;
  };
  /// For each group of devices, ascending, what it gets when all sum at once: links that several
  /// rings cross are shared equally.
  using Groups = std::vector<std::vector<DeviceId>>;
  std::vector<SumWays> sum_ways(const Groups& groups) const;
  /// Of those who share the layers of each device of the plan, in each of the pipelines.
  const std::vector<SumWays>& tensor_sums() const;
  /// Of those who hold a stage, for each member of a group, stage by stage.
  const std::vector<SumWays>& gradient_sums(const Placement& placement) const;

  /// The time of each to sum `bytes`. The fastest of a ring, a tree and rings over the nodes
  /// between sums within them (collective_model.h).
  static std::vector<Duration> all_reduce(const std::vector<SumWays>& sums,
                                          const std::vector<Bytes>& bytes,
                                          const Calibration& constants);

 private:
  /// What one of those who send at once gets: bytes a second, and how long the first of them takes.
  struct Share {
    double rate = 0.0;
    Duration latency{};
    bool between_nodes = false;
    friend auto operator<=>(const Share&, const Share&) = default;
  };
  const Route* way(DeviceId from, DeviceId to) const { return &ways_->between(from, to); }
  /// Of those who stand for a device of the plan in all pipelines, for each member of a group.
  const std::vector<SumWays>& device_sums() const;
  /// Of all pipelines and members of groups, without repeats.
  const std::vector<Share>& shares(DeviceId source, DeviceId target) const;

  std::shared_ptr<ClusterWays> ways_;
  std::size_t width_, depth_, tensor_;
  DeviceOrder order_;
  Table<DeviceId, std::vector<const DeviceSpec*>> kinds_;
  // Looked for once and kept, for prices are asked again with other assumptions.
  mutable std::map<std::pair<DeviceId, DeviceId>, std::vector<Share>> transfers_;
  mutable std::vector<SumWays> tensor_sums_, device_sums_;
  mutable std::map<std::pair<std::vector<DeviceId>, std::vector<StageId>>, std::vector<SumWays>>
      gradient_sums_;
};

/// Who of a cluster's nodes sums; devices ascending.
CollectiveGroup group_of(const Cluster& cluster, const std::vector<DeviceId>& devices);

}  // namespace tandem
