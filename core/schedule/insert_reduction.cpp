#include "core/schedule/insert_reduction.h"

#include <algorithm>
#include <utility>

namespace tandem {

void insert_reduction(Schedule& schedule, bool global_norm) {
  const Placement& placement = schedule.placement;
  const auto sums = [&](StageId stage) {
    return !placement.tied_with(stage).empty() || placement.replicas_of(stage).size() > 1;
  };
  if (!global_norm && schedule.width == 1 && std::ranges::none_of(placement.stage, sums)) return;
  for (std::vector<Op>& order : schedule.order) {
    std::vector<Op> with;
    with.reserve(order.size());
    for (const Op& op : order) {
      if (op.kind == OpKind::update) {
        const StageId stage = placement.stage[op.replica];
        Op reduce = op;
        if (!placement.tied_with(stage).empty()) {
          reduce.kind = OpKind::reduce_tied;
          with.push_back(reduce);
        }
        if (schedule.width > 1 || placement.replicas_of(stage).size() > 1) {
          reduce.kind = OpKind::reduce_gradient;
          with.push_back(reduce);
        }
        if (global_norm) {
          reduce.kind = OpKind::reduce_norm;
          with.push_back(reduce);
        }
      }
      with.push_back(op);
    }
    order = std::move(with);
  }
}

}  // namespace tandem
