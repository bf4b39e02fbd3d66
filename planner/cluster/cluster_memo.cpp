#include "planner/cluster/cluster_memo.h"

#include <algorithm>
#include <utility>

#include "core/schedule/options.h"

namespace tandem {

namespace {

std::size_t ops_of(const Schedule& schedule) {
  std::size_t ops = 0;
  for (const std::vector<Op>& order : schedule.order) ops += order.size();
  return ops;
}

/// Whether the request says all that the schedule depends on.
bool is_said_by_request(const Plan& plan) {
  if (plan.user_schedule != nullptr) return false;
  const ScheduleTraits& row = find_schedule(plan.schedule);
  return !row.orders_by_costs && !plan.request.costs && !plan.request.time_limit;
}

}  // namespace

std::shared_ptr<const LoweredSchedule> KnownSchedules::of(const Plan& plan) {
  if (!is_said_by_request(plan))
    return std::make_shared<const LoweredSchedule>(make_schedule(plan));
  ScheduleRequest request = schedule_request(plan);
  // Layers that are made again are no ops of their own.
  if (request.recompute != Recompute::stage) request.recompute = Recompute::none;
  const auto found = std::ranges::find_if(known_, [&](const Known& known) {
    return known.schedule == plan.schedule && known.request == request &&
           known.optimizer == plan.optimizer;
  });
  if (found != known_.end() &&
      !reason_against(find_schedule(plan.schedule), schedule_request(plan))) {
    known_.splice(known_.begin(), known_, found);
    return known_.front().lowered;
  }
  auto lowered = std::make_shared<const LoweredSchedule>(make_schedule(plan));
  kept_ += ops_of(lowered->schedule());
  known_.push_front({plan.schedule, std::move(request), plan.optimizer, lowered});
  for (; kept_ > most_ops_ && known_.size() > 1; known_.pop_back())
    kept_ -= ops_of(known_.back().lowered->schedule());
  return lowered;
}

ClusterMemo::ClusterMemo(std::shared_ptr<const Cluster> cluster, KnownSchedules schedules)
    : cluster_(std::move(cluster)),
      ways_(std::make_shared<ClusterWays>(*cluster_)),
      schedules_(std::move(schedules)) {}

std::shared_ptr<const ClusterLayout> ClusterMemo::layout(std::size_t width, std::size_t depth,
                                                         DeviceOrder order, std::size_t tensor) {
  std::shared_ptr<const ClusterLayout>& kept = layouts_[{width, depth, order, tensor}];
  if (!kept) kept = std::make_shared<const ClusterLayout>(ways_, width, depth, order, tensor);
  return kept;
}

}  // namespace tandem
