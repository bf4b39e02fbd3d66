#include "core/schedule/insert_recompute.h"

#include <utility>

namespace tandem {

void insert_recompute(Schedule& schedule) {
  for (std::vector<Op>& order : schedule.order) {
    std::vector<Op> with;
    with.reserve(order.size() + order.size() / 2);
    for (const Op& op : order) {
      if (moves_stash(op.kind)) continue;
      if (makes_input_gradient(op.kind)) {
        Op again = op;
        again.kind = OpKind::recompute;
        with.push_back(again);
      }
      with.push_back(op);
    }
    order = std::move(with);
  }
}

}  // namespace tandem
