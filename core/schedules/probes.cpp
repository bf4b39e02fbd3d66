// Two probes: no schedules for use, but shapes that the types, lower(), verify() and the simulator
// must hold, kept honest from the start — two chunks a device in a V, two directions over the same
// parts.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

// Every microbatch runs down the devices and back up before its backward; forwards first, as in
// GPipe.
Schedule make_v_probe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule("probe-v", request, v_placement(request.devices));
  const std::int32_t m = request.microbatches;
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<StageId> stages = schedule.placement.stages_on(device);
    std::vector<Op>& order = schedule.order[device];
    for (const StageId stage : stages) {
      for (std::int32_t i = 0; i < m; ++i) order.push_back(forward(stage, i));
    }
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      for (std::int32_t i = 0; i < m; ++i) order.push_back(backward(*stage, i));
    }
    for (const StageId stage : stages) order.push_back(update(stage, m - 1, m));
  }
  return schedule;
}

}  // namespace tandem
