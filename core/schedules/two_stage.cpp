// 2BP (arXiv 2405.18047): backward in two stages, p1 for the input and p2 for the weights. p2 waits
// until the device would: a microbatch at a time between the last p1s, and then all that are left
// as one.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// The weight gradients of microbatches first … last as one.
Op backward_weights(ReplicaId replica, std::int32_t first, std::int32_t last) {
  Op op = backward_weight(replica, last);
  op.span = static_cast<std::uint16_t>(last - first + 1);
  return op;
}

}  // namespace

std::optional<std::string> reject_two_stage_1f1b(std::string_view name, std::int32_t rounds,
                                                 const ScheduleRequest& request) {
  const std::int32_t wanted = rounds * request.devices;
  if (request.microbatches == wanted) return std::nullopt;
  return fmt::format("{} takes {} microbatches a batch on {} devices, {} for each, found {}", name,
                     wanted, request.devices, rounds, request.microbatches);
}

Schedule make_two_stage_1f1b(const ScheduleRequest& request, std::int32_t slope) {
  return linear_schedule(request, [&](std::vector<Op>& order, ReplicaId replica) {
    const std::int32_t m = request.microbatches;
    const auto rest = static_cast<std::int32_t>(request.devices - 1 - index(replica));
    const std::int32_t ahead = slope * rest;
    for (std::int32_t i = 0; i < ahead; ++i) order.push_back(forward(replica, i));
    for (std::int32_t i = ahead; i < m; ++i) {
      order.push_back(forward(replica, i));
      order.push_back(backward_input(replica, i - ahead));
    }
    for (std::int32_t i = 0; i < ahead; ++i) {
      order.push_back(backward_weight(replica, i));
      order.push_back(backward_input(replica, m - ahead + i));
    }
    order.push_back(backward_weights(replica, ahead, m - 1));
  });
}

Schedule make_two_stage_gpipe(const ScheduleRequest& request) {
  const std::int32_t m = request.microbatches;
  return linear_schedule(request, [m](std::vector<Op>& order, ReplicaId replica) {
    for (std::int32_t i = 0; i < m; ++i) order.push_back(forward(replica, i));
    for (std::int32_t i = 0; i < m; ++i) order.push_back(backward_input(replica, i));
    order.push_back(backward_weights(replica, 0, m - 1));
  });
}

}  // namespace tandem
