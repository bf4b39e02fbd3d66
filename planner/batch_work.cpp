#include "planner/batch_work.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace tandem {

LayerTimes::LayerTimes(const Profile& profile, const ModelSpec& model, std::int32_t microbatch_size,
                       Recompute recompute)
    : overhead_(profile.instruction_overhead) {
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const StageCosts costs =
      costs_from_profile(profile, model, {{0, layers}}, microbatch_size, recompute);
  sums_.emplace_back();
  for (const StageTimes& times : costs.layers) {
    StageTimes sum = sums_.back();
    for (const auto member : kOpTimes) sum.*member += times.*member;
    sums_.push_back(sum);
  }
}

StageTimes LayerTimes::of(LayerRange range) const {
  const StageTimes& before = sums_[static_cast<std::size_t>(range.first)];
  StageTimes times = sums_[static_cast<std::size_t>(range.last)];
  for (const auto member : kOpTimes) times.*member += overhead_ - before.*member;
  return times;
}

BatchWork::BatchWork(const Schedule& schedule)
    : placement_(schedule.placement), counts_(schedule.placement.stages()) {
  for (const std::vector<Op>& order : schedule.order) {
    for (const Op& op : order) {
      if (is_collective(op.kind)) continue;
      counts_[op.stage][index(op.kind)] += op.kind == OpKind::backward_weight ? op.span : 1;
    }
  }
}

Duration BatchWork::of(DeviceId device, const std::vector<LayerRange>& cut,
                       const LayerTimes& times) const {
  Duration work{};
  for (const StageId stage : placement_.stages_on(device)) {
    work += of(stage, times.of(cut[index(placement_.part[stage])]));
  }
  return work;
}

Duration BatchWork::of(StageId stage, const StageTimes& times) const {
  Duration work{};
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    work += counts_[stage][kind] * compute_lane_time(static_cast<OpKind>(kind), times);
  }
  return work;
}

void BatchWork::check_fits_clock(const LayerTimes& times) const {
  const StageTimes all = times.of({0, times.layers()});
  long double work = 0.0L;
  for (const StageId stage : ids(counts_)) {
    for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
      work += static_cast<long double>(counts_[stage][kind]) *
              static_cast<long double>(compute_lane_time(static_cast<OpKind>(kind), all).count());
    }
  }
  if (work >= static_cast<long double>(std::numeric_limits<std::int64_t>::max()) / 2) {
    throw InputError(
        "a batch takes too long to count in nanoseconds (292 years): "
        "a smaller global batch, or smaller costs");
  }
}

}  // namespace tandem
