// 1F1B with flush: PipeDream-Flush (2BW paper §3.2), DAPPLE, Megatron's non-interleaved schedule.
// As few forwards as fill the pipeline, then one forward and one backward in turn, then the rest of
// the backwards. And its eager variant, with twice as many forwards first. Of slices of sequences
// it is Seq1F1B (arXiv 2406.03488): n − 1 forwards more come first, for the last slice goes back
// first.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_one_forward_one_backward(const ScheduleRequest& request, std::int32_t slope) {
  return linear_schedule(request, [&](std::vector<Op>& order, ReplicaId replica) {
    const auto rest = static_cast<std::int32_t>(request.devices - 1 - index(replica));
    const auto m = static_cast<std::int32_t>(request.units()), n = request.slices.count;
    const std::int32_t ahead = std::min(slope * rest + n - 1, m);
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t i = 0; i < ahead; ++i) order.push_back(forward(replica, i));
    for (std::int32_t i = ahead; i < m; ++i) {
      order.push_back(forward(replica, i));
      order.push_back(backward(replica, backward_turn(i - ahead, n)));
    }
    for (std::int32_t i = m - ahead; i < m; ++i)
      order.push_back(backward(replica, backward_turn(i, n)));
  });
}

}  // namespace tandem
