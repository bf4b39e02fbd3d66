// Inter-layer model parallelism: one microbatch in flight, so p − 1 of p devices are idle. The
// baseline of every paper.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_model_parallel(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule("model-parallel", request, linear_placement(request.devices));
  for (const StageId stage : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[stage]];
    for (std::int32_t i = 0; i < request.microbatches; ++i) {
      order.push_back(forward(stage, i));
      order.push_back(backward(stage, i));
    }
    order.push_back(update(stage, request.microbatches - 1, request.microbatches));
  }
  return schedule;
}

}  // namespace tandem
