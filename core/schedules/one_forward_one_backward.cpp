// 1F1B with flush: PipeDream-Flush (2BW paper §3.2), DAPPLE, Megatron's non-interleaved schedule.
// As few forwards as fill the pipeline, then one forward and one backward in turn, then the rest of
// the backwards.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

static void append_one_forward_one_backward(std::vector<Op>& order, StageId stage,
                                            std::int32_t warm_up, std::int32_t microbatches) {
  const std::int32_t ahead = std::min(warm_up, microbatches);
  for (std::int32_t i = 0; i < ahead; ++i) order.push_back(forward(stage, i));
  for (std::int32_t i = ahead; i < microbatches; ++i) {
    order.push_back(forward(stage, i));
    order.push_back(backward(stage, i - ahead));
  }
  for (std::int32_t i = microbatches - ahead; i < microbatches; ++i) {
    order.push_back(backward(stage, i));
  }
}

Schedule make_one_forward_one_backward(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule("1f1b", request, linear_placement(request.devices));
  for (const StageId stage : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[stage]];
    const auto rest = static_cast<std::int32_t>(request.devices - 1 - index(stage));
    append_one_forward_one_backward(order, stage, rest, request.microbatches);
    order.push_back(update(stage, request.microbatches - 1, request.microbatches));
  }
  return schedule;
}

}  // namespace tandem
