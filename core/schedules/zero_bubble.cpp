// Zero bubble's handcrafted orders (arXiv 2401.10241 §2): backward split in two, weight gradients
// where the pipeline would wait. H1 holds what 1F1B holds, H2 about twice that. Of slices of
// sequences as 1F1B of them: n − 1 forwards more come first, and the last slice goes back first.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_zero_bubble(const ScheduleRequest& request, std::int32_t slope) {
  return linear_schedule(request, [&](std::vector<Op>& order, ReplicaId replica) {
    const auto m = static_cast<std::int32_t>(request.units()), n = request.slices.count;
    const auto before = static_cast<std::int32_t>(index(replica));
    const std::int32_t ahead = slope * (request.devices - 1 - before) + n - 1;
    const std::int32_t behind = slope * before;
    for (std::int32_t i = 0; i < std::min(ahead, m); ++i) order.push_back(forward(replica, i));
    for (std::int32_t i = 0; i < m; ++i) {
      if (ahead + i < m) order.push_back(forward(replica, ahead + i));
      order.push_back(backward_input(replica, backward_turn(i, n)));
      if (i >= behind) order.push_back(backward_weight(replica, backward_turn(i - behind, n)));
    }
    for (std::int32_t i = std::max(0, m - behind); i < m; ++i)
      order.push_back(backward_weight(replica, backward_turn(i, n)));
  });
}

}  // namespace tandem
