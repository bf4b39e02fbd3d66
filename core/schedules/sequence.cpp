// Slices of sequences, which pass the pipeline one after the other: attention looks back, so a
// slice needs nothing of later ones. TeraPipe (arXiv 2102.07988) is GPipe of them; Seq1F1B (arXiv
// 2406.03488) is the generator of 1F1B.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

Schedule make_terapipe(const ScheduleRequest& request) {
  return linear_schedule(request, [&](std::vector<Op>& order, ReplicaId replica) {
    const auto units = static_cast<std::int32_t>(request.units());
    order.reserve(2 * static_cast<std::size_t>(units) + 1);
    for (std::int32_t i = 0; i < units; ++i) order.push_back(forward(replica, i));
    for (std::int32_t i = units; i-- > 0;) order.push_back(backward(replica, i));
  });
}

}  // namespace tandem
