#pragma once
// A model cut into the stages of a schedule on a cluster, so that the busiest takes the least time.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/model/plan.h"
#include "planner/cluster/lowered_schedule.h"
#include "planner/search/batch_work.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_costs.h"
#include "simulator/cost/cluster_layout.h"

namespace tandem {

/// What plans may fill of each device's memory.
Table<DeviceId, Bytes> usable_of(const ClusterLayout& layout,
                                 const AnalyticAssumptions& assumptions);

/// Where each stage has a device for itself: the fastest cut in which every stage fits, if there is
/// one; else the fastest. `bytes`: the plan's. `cut`: balanced or blocks. Throws ShapeError where
/// there are more stages than parts.
std::vector<LayerRange> balanced_stages(const Plan& plan, const LoweredSchedule& lowered,
                                        const ClusterLayout& layout,
                                        const AnalyticAssumptions& assumptions, RangeBytes& bytes,
                                        StageCut cut);

/// Cuts of one model, each worked out once for plans whose stages take as long. To be used by one
/// thread, for one optimizer.
class KnownCuts {
 public:
  /// What balanced_stages() finds where several stages share a device, by ops that need not be
  /// ordered. Throws what that does.
  std::vector<LayerRange> of(const Plan& plan, const BatchWork& work, const ClusterLayout& layout,
                             const AnalyticAssumptions& assumptions, StageCut cut);

 private:
  /// What the time of a range depends on in a stage, and in how many in a row.
  struct Takes {
    OpCounts ops = {};
    std::vector<const DeviceSpec*> devices = {};  // that stand for its own
    Duration tensor_sum{};
    std::size_t stages = 0;
    friend auto operator<=>(const Takes&, const Takes&) = default;
  };
  using Key = std::tuple<std::int32_t, std::int32_t, Recompute, std::int32_t, std::size_t,
                         std::vector<Takes>, StageCut>;
  std::map<Key, std::vector<LayerRange>> known_;
};

/// False: no cut fits, not even if each stage is as long as it can be, others empty, and one slot
/// of everything enough. REQUIRES: each stage has a device for itself.
bool may_fit(const Plan& plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
             const AnalyticAssumptions& assumptions, RangeBytes& bytes);

}  // namespace tandem
