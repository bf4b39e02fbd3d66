// GPipe (arXiv 1811.06965): all forwards, then all backwards, one update, one weight version. In
// groups, for devices that can't hold a batch: those of a group, drained before the next one. Of
// one microbatch: inter-layer model parallelism, in which p − 1 of p devices are idle, the baseline
// of every paper; on one device, replicated by the width, data parallelism.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_gpipe(const ScheduleRequest& request, std::int32_t group) {
  const std::int32_t m = request.microbatches, step = group > 0 ? group : m;
  return linear_schedule(request, [=](std::vector<Op>& order, ReplicaId replica) {
    for (std::int32_t first = 0; first < m; first += step) {
      const std::int32_t end = std::min(first + step, m);
      for (std::int32_t i = first; i < end; ++i) order.push_back(forward(replica, i));
      for (std::int32_t i = first; i < end; ++i) order.push_back(backward(replica, i));
    }
  });
}

}  // namespace tandem
