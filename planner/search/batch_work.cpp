#include "planner/search/batch_work.h"

#include <algorithm>
#include <utility>

namespace tandem {

BatchWork::BatchWork(const Schedule& schedule)
    : placement_(schedule.placement),
      counts_(schedule.placement.replicas()),
      slices_(schedule.slices) {
  for (const std::vector<Op>& order : schedule.order) {
    for (const Op& op : order) {
      if (is_collective(op.kind)) continue;
      counts_[op.replica][index(op.kind)] += traits(op.kind).spans ? op.span : 1;
    }
  }
}

BatchWork::BatchWork(Placement placement, Table<ReplicaId, OpCounts> counts, std::int32_t slices)
    : placement_(std::move(placement)), counts_(std::move(counts)), slices_(slices) {}

Duration BatchWork::of(DeviceId device, const std::vector<LayerRange>& cut,
                       const LayerTimes& times) const {
  Duration work{};
  for (const ReplicaId replica : placement_.replicas_on(device))
    work = std::min(kMost, work + of(replica, times.of(cut[index(placement_.stage[replica])])));
  return work;
}

Duration BatchWork::of(ReplicaId replica, const StageTimes& times) const {
  long double work = 0.0L;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    if (counts_[replica][kind] == 0) continue;
    const auto op = static_cast<OpKind>(kind);
    work += static_cast<long double>(counts_[replica][kind]) *
            static_cast<long double>(compute_lane_time(op, times).count()) /
            (is_compute(op) ? slices_ : 1);
  }
  return work < static_cast<long double>(kMost.count()) ? Duration(static_cast<std::int64_t>(work))
                                                        : kMost;
}

}  // namespace tandem
