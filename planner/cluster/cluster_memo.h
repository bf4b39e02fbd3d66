#pragma once
// ClusterMemo: what plans of one cluster have in common, worked out once for many of them.

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "core/model/plan.h"
#include "planner/cluster/lowered_schedule.h"
#include "simulator/cost/cluster_layout.h"

namespace tandem {

/// Schedules of plans, whatever else these differ in: prices, recomputation of layers, cuts. The
/// last are kept, up to `most_ops` together, each op some 100 bytes. To be used by one thread.
class KnownSchedules {
 public:
  explicit KnownSchedules(std::size_t most_ops = 5 << 16) : most_ops_(most_ops) {}

  /// What make_schedule() makes of the plan, and throws. Never one that is ordered by the plan's
  /// costs, or searched for: those are made anew.
  std::shared_ptr<const LoweredSchedule> of(const Plan& plan);

 private:
  struct Known {
    std::string schedule;
    ScheduleRequest request;
    Optimizer optimizer;
    std::shared_ptr<const LoweredSchedule> lowered;
  };
  std::list<Known> known_;           // the last asked for first
  std::size_t most_ops_, kept_ = 0;  // ops of these
};

/// To be used by one thread.
class ClusterMemo {
 public:
  explicit ClusterMemo(std::shared_ptr<const Cluster> cluster,
                       KnownSchedules schedules = KnownSchedules());

  const std::shared_ptr<const Cluster>& cluster() const { return cluster_; }
  const std::shared_ptr<ClusterWays>& ways() const { return ways_; }
  KnownSchedules& schedules() { return schedules_; }
  std::shared_ptr<const ClusterLayout> layout(std::size_t width, std::size_t depth,
                                              DeviceOrder order, std::size_t tensor);

 private:
  std::shared_ptr<const Cluster> cluster_;
  std::shared_ptr<ClusterWays> ways_;
  std::map<std::tuple<std::size_t, std::size_t, DeviceOrder, std::size_t>,
           std::shared_ptr<const ClusterLayout>>
      layouts_;
  KnownSchedules schedules_;
};

}  // namespace tandem
