// One microbatch at a time. On p devices: inter-layer model parallelism, in which p − 1 of them are
// idle, the baseline of every paper. On one, replicated by the width: data parallelism.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_one_at_a_time(const ScheduleRequest& request) {
  return linear_schedule(request, [&](std::vector<Op>& order, ReplicaId replica) {
    for (std::int32_t i = 0; i < request.microbatches; ++i) {
      order.push_back(forward(replica, i));
      order.push_back(backward(replica, i));
    }
  });
}

}  // namespace tandem
