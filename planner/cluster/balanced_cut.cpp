#include "planner/cluster/balanced_cut.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "planner/search/alike_ranges.h"
#include "planner/search/batch_work.h"
#include "planner/search/partition.h"

namespace tandem {

namespace {

/// What stages compute in a batch, by range of layers: worked out once for those that are alike.
class StageWork {
 public:
  StageWork(const AlikeRanges& ranges, const BatchWork& work, const ClusterLayers& layers)
      : ranges_(ranges), placement_(work.placement()), work_(work), layers_(layers) {
    for (const StageId stage : all_ids<StageId>(placement_.stages())) {
      replicas_.push_back(placement_.replicas_of(stage));
      const auto like = [&](const std::vector<ReplicaId>& other) {
        return replicas_.back().size() == 1 && other.size() == 1 &&
               work_.alike(other.front(), replicas_.back().front()) &&
               layers_.alike(placement_.device[other.front()],
                             placement_.device[replicas_.back().front()]);
      };
      first_like_.push_back(static_cast<std::size_t>(
          std::ranges::find_if(replicas_.begin(), replicas_.end() - 1, like) - replicas_.begin()));
    }
    known_.resize(replicas_.size());
  }

  std::int64_t of(LayerRange range, std::size_t stage) {
    std::int64_t& work = known(range, stage);
    if (work == kUnknown) {
      const LayerRange like = ranges_.first_like(range);
      work = like == range ? worked_out(range, stage) : of(like, stage);
    }
    return work;
  }

 private:
  static constexpr std::int64_t kUnknown = -1;

  std::int64_t& known(LayerRange range, std::size_t stage) {
    std::vector<std::vector<std::int64_t>>& of_stage = known_[first_like_[stage]];
    const auto first = static_cast<std::size_t>(range.first),
               size = static_cast<std::size_t>(range.size());
    if (of_stage.empty()) of_stage.resize(static_cast<std::size_t>(ranges_.layers()) + 1);
    if (of_stage[first].size() <= size) of_stage[first].resize(size + 1, kUnknown);
    return of_stage[first][size];
  }

  std::int64_t worked_out(LayerRange range, std::size_t stage) const {
    Duration most{};
    for (const ReplicaId replica : replicas_[stage])
      most = std::max(most, work_.of(replica, layers_.of(placement_.device[replica], range)));
    return most.count();
  }

  const AlikeRanges& ranges_;
  const Placement& placement_;
  const BatchWork& work_;
  const ClusterLayers& layers_;
  std::vector<std::vector<ReplicaId>> replicas_;  // of each stage
  std::vector<std::size_t> first_like_;
  std::vector<std::vector<std::vector<std::int64_t>>> known_;  // by first layer, by size
};

/// Whether a stage that is alone on its device can hold a range there.
class StageRoom {
 public:
  StageRoom(const Plan& plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
            const AnalyticAssumptions& assumptions, RangeBytes& bytes)
      : plan_(plan),
        ranges_(plan.model),
        lowered_(lowered),
        bytes_(bytes),
        usable_(usable_of(layout, assumptions)),
        by_framework_(assumptions.fits_by == FitsBy::framework) {}

  bool fits(LayerRange range, std::size_t stage) {
    return fits(range, stage, lowered_.slots()[id_at<ReplicaId>(stage)]);
  }
  bool fits(LayerRange range, std::size_t stage, const StageSlots& slots) {
    const ReplicaId replica = id_at<ReplicaId>(stage);
    try {
      const StageBytes& of = bytes_.of(ranges_.first_like(range), plan_);
      return (by_framework_ ? framework_total(slots, of, lowered_.fullest()[replica])
                            : stage_total(slots, of)) <=
             usable_[lowered_.schedule().placement.device[replica]];
    } catch (const InputError&) {
      return false;  // more than can be counted; a shorter range may do
    }
  }

  /// False: no cut does, not even if each stage is as long as it can be, others empty, and one slot
  /// of everything enough.
  bool may_fit() {
    StageSlots least;
    for (const SlotKind kind : {SlotKind::weights, SlotKind::gradients, SlotKind::stash})
      least[kind] = 1;
    const std::int32_t layers = ranges_.layers();
    std::int32_t end = 0;
    for (std::size_t stage = 0; stage < lowered_.schedule().placement.stages(); ++stage) {
      const std::int32_t first = end;
      while (end < layers && fits({first, end + 1}, stage, least)) ++end;
    }
    return end == layers;
  }

 private:
  const Plan& plan_;
  const AlikeRanges ranges_;
  const LoweredSchedule& lowered_;
  RangeBytes& bytes_;
  const Table<DeviceId, Bytes> usable_;
  const bool by_framework_;
};

}  // namespace

Table<DeviceId, Bytes> usable_of(const ClusterLayout& layout,
                                 const AnalyticAssumptions& assumptions) {
  Table<DeviceId, Bytes> usable;
  for (const DeviceId device : all_ids<DeviceId>(layout.depth()))
    usable.push_back(assumptions.reserve.usable(layout.memory(device)));
  return usable;
}

/// Where a cut may be made. Throws ShapeError where that gives too few parts.
static std::vector<std::int32_t> boundaries_for(const Plan& plan, std::size_t stages,
                                                StageCut cut) {
  std::vector<std::int32_t> boundaries = boundaries_of(plan.model, cut);
  if (stages > boundaries.size() - 1) {
    throw ShapeError(fmt::format("{} stages of whole blocks: {} has {}, embedding and head counted",
                                 stages, plan.model.name, boundaries.size() - 1));
  }
  return boundaries;
}

/// Stages that each take as `work` says. It must outlive the problem.
static PartitionProblem by_work(StageWork& work, std::int32_t layers, std::size_t stages) {
  return {.layers = layers,
          .depth = static_cast<std::int32_t>(stages),
          .cost = [&work](LayerRange range, std::size_t stage) { return work.of(range, stage); }};
}

std::vector<LayerRange> balanced_stages(const Plan& plan, const LoweredSchedule& lowered,
                                        const ClusterLayout& layout,
                                        const AnalyticAssumptions& assumptions, RangeBytes& bytes,
                                        StageCut cut) {
  const std::size_t stages = lowered.schedule().placement.stages();
  const std::vector<std::int32_t> boundaries = boundaries_for(plan, stages, cut);
  const BatchWork ops(lowered.schedule());
  const ClusterLayers layers(plan, layout, assumptions);
  const AlikeRanges ranges(plan.model);
  StageWork work(ranges, ops, layers);
  PartitionProblem problem = by_work(work, boundaries.back(), stages);
  // Where each stage has its device for itself, a cut that fits is found if there is one.
  if (lowered.one_stage_a_device()) {
    StageRoom room(plan, lowered, layout, assumptions, bytes);
    problem.fits = [&room](LayerRange range, std::size_t stage) { return room.fits(range, stage); };
    auto found = room.may_fit() ? partition_at(boundaries, problem) : std::nullopt;
    if (found) return std::move(*found);
    problem.fits = {};
  }
  auto found = partition_at(boundaries, problem);
  TANDEM_CHECK(found.has_value(), stages);
  return std::move(*found);
}

std::vector<LayerRange> KnownCuts::of(const Plan& plan, const BatchWork& ops,
                                      const ClusterLayout& layout,
                                      const AnalyticAssumptions& assumptions, StageCut cut) {
  const Placement& placement = ops.placement();
  const std::size_t stages = placement.stages();
  const ClusterLayers layers(plan, layout, assumptions);
  const auto worked_out = [&] {
    const std::vector<std::int32_t> boundaries = boundaries_for(plan, stages, cut);
    const AlikeRanges ranges(plan.model);
    StageWork work(ranges, ops, layers);
    auto found = partition_at(boundaries, by_work(work, boundaries.back(), stages));
    TANDEM_CHECK(found.has_value(), stages);
    return std::move(*found);
  };
  if (placement.replicas() != stages) return worked_out();
  std::vector<Takes> each;
  for (const StageId stage : all_ids<StageId>(stages)) {
    const auto replica = id_at<ReplicaId>(index(stage));
    TANDEM_CHECK(placement.stage[replica] == stage, index(replica));
    const DeviceId device = placement.device[replica];
    const Duration sum = layers.tensor_sum(device);
    const bool as_before = !each.empty() && each.back().ops == ops.counts(replica) &&
                           each.back().devices == layout.kinds(device) &&
                           each.back().tensor_sum == sum;
    if (!as_before) each.push_back({ops.counts(replica), layout.kinds(device), sum, 0});
    ++each.back().stages;
  }
  const Key key{assumptions.tensor,
                plan.microbatch_size,
                plan.request.recompute,
                plan.request.slices.count,
                stages,
                std::move(each),
                cut};
  const auto place = known_.find(key);
  if (place != known_.end()) return place->second;
  return known_.emplace(key, worked_out()).first->second;
}

bool may_fit(const Plan& plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
             const AnalyticAssumptions& assumptions, RangeBytes& bytes) {
  return StageRoom(plan, lowered, layout, assumptions, bytes).may_fit();
}

}  // namespace tandem
