#include "planner/search/batch_work.h"

#include <limits>

#include "core/base/error.h"

namespace tandem {

BatchWork::BatchWork(const Schedule& schedule)
    : placement_(schedule.placement), counts_(schedule.placement.replicas()) {
  for (const std::vector<Op>& order : schedule.order) {
    for (const Op& op : order) {
      if (is_collective(op.kind)) continue;
      counts_[op.replica][index(op.kind)] += traits(op.kind).spans ? op.span : 1;
    }
  }
}

Duration BatchWork::of(DeviceId device, const std::vector<LayerRange>& cut,
                       const LayerTimes& times) const {
  Duration work{};
  for (const ReplicaId replica : placement_.replicas_on(device))
    work += of(replica, times.of(cut[index(placement_.stage[replica])]));
  return work;
}

Duration BatchWork::of(ReplicaId replica, const StageTimes& times) const {
  Duration work{};
  for (std::size_t kind = 0; kind < kOpKinds; ++kind)
    work += counts_[replica][kind] * compute_lane_time(static_cast<OpKind>(kind), times);
  return work;
}

void BatchWork::check_fits_clock(const LayerTimes& times) const {
  const StageTimes all = times.of({0, times.layers()});
  long double work = 0.0L;
  for (const ReplicaId replica : ids(counts_)) {
    for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
      work += static_cast<long double>(counts_[replica][kind]) *
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
