// One microbatch at a time. On p devices: inter-layer model parallelism, in which p − 1 of them are
// idle, the baseline of every paper. On one, replicated by the width: data parallelism.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

static Schedule one_at_a_time(std::string_view name, const ScheduleRequest& request) {
  return linear_schedule(name, request, [&](std::vector<Op>& order, ReplicaId replica) {
    for (std::int32_t i = 0; i < request.microbatches; ++i) {
      order.push_back(forward(replica, i));
      order.push_back(backward(replica, i));
    }
  });
}

Schedule make_model_parallel(const ScheduleRequest& request) {
  return one_at_a_time("model-parallel", request);
}

Schedule make_data_parallel(const ScheduleRequest& request) {
  return one_at_a_time("data-parallel", request);
}

}  // namespace tandem
