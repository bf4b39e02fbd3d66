#include "core/schedule/passes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace tandem {

void insert_recompute(Schedule& schedule) {
  for (std::vector<Op>& order : schedule.order) {
    std::vector<Op> with;
    with.reserve(order.size() + order.size() / 2);
    for (const Op& op : order) {
      if (moves_stash(op.kind)) continue;
      if (makes_input_gradient(op.kind)) with.emplace_back(op).kind = OpKind::recompute;
      with.push_back(op);
    }
    order = std::move(with);
  }
}

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
        const auto put = [&](OpKind kind) { with.emplace_back(op).kind = kind; };
        if (!placement.tied_with(stage).empty()) put(OpKind::reduce_tied);
        if (schedule.width > 1 || placement.replicas_of(stage).size() > 1)
          put(OpKind::reduce_gradient);
        if (global_norm) put(OpKind::reduce_norm);
      }
      with.push_back(op);
    }
    order = std::move(with);
  }
}

namespace {

/// How many ops of each device's order run before its updates are validated.
class Ahead {
 public:
  explicit Ahead(const Schedule& schedule)
      : schedule_(schedule),
        m_(static_cast<std::size_t>(schedule.microbatches)),
        above_(schedule.placement.replicas()),
        place_(schedule.placement.replicas() * m_, kNowhere),
        counts_(schedule.placement.devices, 0) {
    for (const Placement::Edge& edge : schedule.placement.edges)
      above_[edge.to].push_back(edge.from);
    for (const DeviceId device : ids(schedule.order)) {
      const std::vector<Op>& order = schedule.order[device];
      const auto waits = std::ranges::find_if(
          order, [](const Op& op) { return op.kind != OpKind::forward || op.group != 0; });
      counts_[device] = static_cast<std::size_t>(waits - order.begin());
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (order[i].kind == OpKind::forward) place_[cell(order[i].replica, order[i])] = i;
      }
    }
    while (shrink()) {
    }
  }

  std::size_t operator[](DeviceId device) const { return counts_[device]; }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

  std::size_t cell(ReplicaId replica, const Op& op) const {
    return index(replica) * m_ + static_cast<std::size_t>(op.microbatch);
  }

  /// Whether `op` takes its input from a forward that stands behind its device's validates.
  bool fed_late(const Op& op) const {
    return std::ranges::any_of(above_[op.replica], [&](ReplicaId replica) {
      const std::size_t place = place_[cell(replica, op)];
      return place != kNowhere && place >= counts_[schedule_.placement.device[replica]];
    });
  }

  bool shrink() {
    bool changed = false;
    for (const DeviceId device : ids(counts_)) {
      const auto begin = schedule_.order[device].begin();
      const auto end = begin + static_cast<std::ptrdiff_t>(counts_[device]);
      const auto late = std::find_if(begin, end, [this](const Op& op) { return fed_late(op); });
      changed = changed || late != end;
      counts_[device] = static_cast<std::size_t>(late - begin);
    }
    return changed;
  }

  const Schedule& schedule_;
  const std::size_t m_;
  Table<ReplicaId, std::vector<ReplicaId>> above_;
  std::vector<std::size_t> place_;  // of each forward in its device's order
  Table<DeviceId, std::size_t> counts_;
};

}  // namespace

void insert_validation(Schedule& schedule) {
  const Placement& placement = schedule.placement;
  const Ahead ahead(schedule);
  for (const DeviceId device : ids(schedule.order)) {
    std::vector<Op>& order = schedule.order[device];
    std::vector<Op> validates;
    for (const Op& op : order) {
      TANDEM_CHECK(op.microbatch < schedule.microbatches && op.staleness == 0, op.microbatch);
      if (op.kind != OpKind::update) continue;
      validates.emplace_back(op).kind = OpKind::validate;
    }
    std::ranges::stable_sort(validates, {},
                             [&](const Op& op) { return placement.stage[op.replica]; });
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(ahead[device]);
    std::for_each(order.begin(), first, [&](Op& op) { op.microbatch += schedule.microbatches; });
    std::rotate(order.begin(), first, order.end());
    order.insert(order.end(), validates.begin(), validates.end());
  }
}

void keep_forwards(Schedule& schedule) {
  const std::int32_t m = schedule.microbatches;
  for (std::vector<Op>& order : schedule.order) {
    std::erase_if(order, [](const Op& op) { return op.kind != OpKind::forward; });
    // Those of batches to come have been done, bodies ago, before this one's.
    std::ranges::stable_sort(order, std::greater{},
                             [m](const Op& op) { return op.microbatch / m; });
    for (Op& op : order) {
      op.microbatch %= m;
      op.staleness = op.group = 0;
    }
  }
  schedule.forwards_alone = true;
  schedule.version_rule = VersionRule::same;
  schedule.readings = {};
}

}  // namespace tandem
