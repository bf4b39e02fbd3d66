// GPipe (arXiv 1811.06965): all forwards, then all backwards, one update, one weight version.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_gpipe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule("gpipe", request, linear_placement(request.devices));
  for (const StageId stage : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[stage]];
    for (std::int32_t i = 0; i < request.microbatches; ++i) order.push_back(forward(stage, i));
    for (std::int32_t i = 0; i < request.microbatches; ++i) order.push_back(backward(stage, i));
    order.push_back(update(stage, request.microbatches - 1, request.microbatches));
  }
  return schedule;
}

}  // namespace tandem
