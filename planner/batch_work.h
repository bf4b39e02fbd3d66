#pragma once
// What a schedule's stages compute in one batch, for any cut of the model.

#include <array>
#include <cstdint>
#include <vector>

#include "core/model.h"
#include "core/schedule.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Times of layer ranges as costs_from_profile() gives them, from prefix sums.
class LayerTimes {
 public:
  /// Throws InputError as costs_from_profile() does.
  LayerTimes(const Profile& profile, const ModelSpec& model, std::int32_t microbatch_size,
             Recompute recompute);
  StageTimes of(LayerRange range) const;
  std::int32_t layers() const { return static_cast<std::int32_t>(sums_.size()) - 1; }

 private:
  Duration overhead_{};
  std::vector<StageTimes> sums_;  // of the layers before
};

/// How often each stage runs each kind of op in one batch: all that occupies its compute lane.
class BatchWork {
 public:
  explicit BatchWork(const Schedule& schedule);

  /// Time that `stage` computes in one batch when it holds a range with these times.
  Duration of(StageId stage, const StageTimes& times) const;
  /// The same of all stages of a device, for a cut into ranges of each part.
  Duration of(DeviceId device, const std::vector<LayerRange>& cut, const LayerTimes& times) const;
  /// Throws InputError when all of the work, one op after another, would outlast the clock.
  void check_fits_clock(const LayerTimes& times) const;
  std::size_t stages() const { return counts_.size(); }
  const Placement& placement() const { return placement_; }

 private:
  Placement placement_;
  Table<StageId, std::array<std::int64_t, kOpKinds>> counts_;
};

}  // namespace tandem
