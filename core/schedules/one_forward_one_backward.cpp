// 1F1B with flush: PipeDream-Flush (2BW paper §3.2), DAPPLE, Megatron's non-interleaved schedule.
// As few forwards as fill the pipeline, then one forward and one backward in turn, then the rest of
// the backwards. And its eager variant, with twice as many forwards first.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

static void append_one_forward_one_backward(std::vector<Op>& order, ReplicaId replica,
                                            std::int32_t warm_up, std::int32_t microbatches) {
  const std::int32_t ahead = std::min(warm_up, microbatches);
  for (std::int32_t i = 0; i < ahead; ++i) order.push_back(forward(replica, i));
  for (std::int32_t i = ahead; i < microbatches; ++i) {
    order.push_back(forward(replica, i));
    order.push_back(backward(replica, i - ahead));
  }
  for (std::int32_t i = microbatches - ahead; i < microbatches; ++i) {
    order.push_back(backward(replica, i));
  }
}

/// `slope`: forwards by which each stage is further ahead than the next.
static Schedule with_slope(std::string_view name, const ScheduleRequest& request,
                           std::int32_t slope) {
  Schedule schedule = empty_schedule(name, request, linear_placement(request.devices));
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const auto rest = static_cast<std::int32_t>(request.devices - 1 - index(replica));
    order.reserve(2 * static_cast<std::size_t>(request.microbatches) + 1);
    append_one_forward_one_backward(order, replica, slope * rest, request.microbatches);
    order.push_back(update(replica, request.microbatches - 1, request.microbatches));
  }
  return schedule;
}

Schedule make_one_forward_one_backward(const ScheduleRequest& request) {
  return with_slope("1f1b", request, 1);
}

// Forwards early enough that the latency of the links is hidden, at twice the activations.
Schedule make_eager(const ScheduleRequest& request) { return with_slope("1f1b-eager", request, 2); }

}  // namespace tandem
