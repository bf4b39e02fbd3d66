#pragma once
// What a schedule's stages compute in one batch, for any cut of the model.

#include <array>
#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

/// How often a stage runs each kind of op in one batch.
using OpCounts = std::array<std::int64_t, kOpKinds>;

/// How often each stage runs each kind of op in one batch: all that occupies its compute lane.
class BatchWork {
 public:
  explicit BatchWork(const Schedule& schedule);
  /// Of a schedule that is not made. `slices`: of each microbatch.
  BatchWork(Placement placement, Table<ReplicaId, OpCounts> counts, std::int32_t slices);

  /// What takes longer counts as this: simulate() refuses it.
  static constexpr Duration kMost = Duration::max() / 2;

  /// Time that `replica` computes in one batch when it holds a range with these times.
  Duration of(ReplicaId replica, const StageTimes& times) const;
  /// Whether both compute the same for equal times.
  bool alike(ReplicaId a, ReplicaId b) const { return counts_[a] == counts_[b]; }
  const OpCounts& counts(ReplicaId replica) const { return counts_[replica]; }
  /// The same of all stages of a device, for a cut into ranges of each stage.
  Duration of(DeviceId device, const std::vector<LayerRange>& cut, const LayerTimes& times) const;
  std::size_t stages() const { return counts_.size(); }
  const Placement& placement() const { return placement_; }

 private:
  Placement placement_;
  Table<ReplicaId, OpCounts> counts_;
  std::int32_t slices_ = 1;  // that share out the time of a microbatch
};

}  // namespace tandem
