// GPipe (arXiv 1811.06965): all forwards, then all backwards, one update, one weight version. In
// groups, for devices that can't hold a batch: those of a group, drained before the next one.

#include <algorithm>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_gpipe(const ScheduleRequest& request) {
  const std::int32_t m = request.microbatches, group = request.group > 0 ? request.group : m;
  return linear_schedule(request, [=](std::vector<Op>& order, ReplicaId replica) {
    for (std::int32_t first = 0; first < m; first += group) {
      const std::int32_t end = std::min(first + group, m);
      for (std::int32_t i = first; i < end; ++i) order.push_back(forward(replica, i));
      for (std::int32_t i = first; i < end; ++i) order.push_back(backward(replica, i));
    }
  });
}

}  // namespace tandem
