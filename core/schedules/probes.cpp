// Two probes: no schedules for use, but shapes that the types, lower(), verify() and the simulator
// must hold, kept honest from the start — two chunks a device in a V, two directions over the same
// parts.

#include <fmt/format.h>

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

std::optional<std::string> reject_bidirectional_probe(const ScheduleRequest& request) {
  if (request.tied_embeddings) {
    return "replicated stages with tied embeddings are not in this version";
  }
  if (request.devices < 2 || request.devices % 2 != 0) {
    return fmt::format("two directions need an even number of devices, found {}", request.devices);
  }
  if (request.microbatches % 2 != 0) {
    return fmt::format("two directions need an even number of microbatches, found {}",
                       request.microbatches);
  }
  return std::nullopt;
}

// The first half of the microbatches goes down, the second up; on each device the chain that is
// nearer to its end of the pipeline goes first, so that both directions advance.
Schedule make_bidirectional_probe(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("probe-bidirectional", request, bidirectional_placement(request.devices));
  const std::int32_t half = request.microbatches / 2;
  const std::size_t p = request.devices;
  for (std::size_t device = 0; device < p; ++device) {
    std::vector<Op>& order = schedule.order[id_at<DeviceId>(device)];
    const StageId down = id_at<StageId>(device), up = id_at<StageId>(p + (p - 1 - device));
    const bool down_first = device < p / 2;
    const StageId first = down_first ? down : up, second = down_first ? up : down;
    const std::int32_t first_start = down_first ? 0 : half, second_start = half - first_start;
    for (std::int32_t i = 0; i < half; ++i) order.push_back(forward(first, first_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(forward(second, second_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(backward(second, second_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(backward(first, first_start + i));
    for (const StageId stage : {down, up}) {
      order.push_back(update(stage, request.microbatches - 1, request.microbatches));
    }
  }
  return schedule;
}

}  // namespace tandem
