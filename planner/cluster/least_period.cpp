#include "planner/cluster/least_period.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/program/cost.h"

namespace tandem {

namespace {

/// When ops of one kind end, by replica and microbatch, or batch, of the body.
class EndTimes {
 public:
  EndTimes(std::size_t replicas, std::size_t microbatches, std::int64_t end = kAbsent)
      : microbatches_(microbatches), ends_(replicas * microbatches, end) {}

  static constexpr std::int64_t kAbsent = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kExpected = kAbsent + 1;  // is in this body, and not made yet

  std::int64_t& at(ReplicaId replica, std::int32_t microbatch) {
    return ends_[index(replica) * microbatches_ + static_cast<std::size_t>(microbatch)];
  }

 private:
  std::size_t microbatches_;
  std::vector<std::int64_t> ends_;
};

class LongestWay {
 public:
  LongestWay(const Schedule& schedule, const StageCosts& costs)
      : schedule_(schedule),
        placement_(schedule.placement),
        costs_(costs),
        before_(placement_.replicas()),
        behind_(placement_.replicas()),
        forwards_(placement_.replicas(), microbatches(schedule)),
        backwards_(placement_.replicas(), microbatches(schedule)),
        gradients_(placement_.replicas(), microbatches(schedule), kUnreached),
        next_(placement_.devices, 0),
        now_(placement_.devices, kUnreached) {
    for (const Placement::Edge& edge : placement_.edges) {
      before_[index(edge.to)].push_back(edge.from);
      behind_[index(edge.from)].push_back(edge.to);
    }
    for (const std::vector<Op>& order : schedule.order) {
      for (const Op& op : order) {
        if (makes_output(op.kind)) forwards_.at(op.replica, op.microbatch) = EndTimes::kExpected;
        if (makes_input_gradient(op.kind))
          backwards_.at(op.replica, op.microbatch) = EndTimes::kExpected;
      }
    }
    now_.front() = 0;
  }

  Duration run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t device = 0; device < next_.size(); ++device)
        goes_on = advance(id_at<DeviceId>(device)) || goes_on;
    }
    const bool ended = next_.front() == schedule_.order[DeviceId{}].size();
    return Duration(ended ? std::max<std::int64_t>(now_.front(), 0) : 0);
  }

 private:
  /// No way leads there from device 0's first op; what is added to it stays far below 0.
  static constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::min() / 2;

  /// What takes longer counts as this, so that no sum overflows.
  static constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max() / 4;

  static std::size_t microbatches(const Schedule& schedule) {
    std::int32_t most = 0;
    for (const std::vector<Op>& order : schedule.order)
      for (const Op& op : order) most = std::max(most, op.microbatch);
    return static_cast<std::size_t>(most) + 1;
  }

  std::int32_t batch(const Op& op) const { return op.microbatch / schedule_.microbatches; }

  /// Makes the ops of a device that wait for nothing any more; false: there is none.
  bool advance(DeviceId device) {
    const std::vector<Op>& order = schedule_.order[device];
    std::size_t& next = next_[index(device)];
    const std::size_t first = next;
    for (; next < order.size(); ++next) {
      const Op& op = order[next];
      std::int64_t start = now_[index(device)];
      if (!wait(op, start)) break;
      const std::int64_t end = std::min(start + time(op), kLongest);
      now_[index(device)] = end;
      if (makes_output(op.kind)) forwards_.at(op.replica, op.microbatch) = end;
      if (makes_input_gradient(op.kind)) backwards_.at(op.replica, op.microbatch) = end;
      if (makes_weight_gradient(op.kind)) gradients_.at(op.replica, batch(op)) = end;
    }
    return next > first;
  }

  /// Whether what `op` waits for is made; then `start` is no earlier.
  bool wait(const Op& op, std::int64_t& start) {
    if (makes_version(op.kind)) {
      if (schedule_.width > 1)
        start = std::max(
            start,
            gradients_.at(op.replica, batch(op)) +
                std::min(costs_.stages[placement_.stage[op.replica]].reduce.count(), kLongest));
      return true;
    }
    if (makes_output(op.kind)) return wait_for(forwards_, before_[index(op.replica)], op, start);
    if (!makes_input_gradient(op.kind)) return true;
    return wait_for(forwards_, {op.replica}, op, start) &&
           wait_for(backwards_, behind_[index(op.replica)], op, start);
  }

  bool wait_for(EndTimes& ends, const std::vector<ReplicaId>& sources, const Op& op,
                std::int64_t& start) {
    for (const ReplicaId source : sources) {
      const std::int64_t end = ends.at(source, op.microbatch);
      if (end == EndTimes::kExpected) return false;
      if (end == EndTimes::kAbsent) continue;
      start = std::max(start, end + transfer(op, source));
    }
    return true;
  }

  const StageCosts& costs_of(const Op& op) const {
    if (costs_.slices.empty()) return costs_;
    return costs_.slices[static_cast<std::size_t>(op.microbatch % schedule_.slices)];
  }
  std::int64_t transfer(const Op& op, ReplicaId from) const {
    const DeviceId source = placement_.device[from], target = placement_.device[op.replica];
    if (source == target) return 0;
    const Duration time = transfer_time(costs_of(op), placement_.devices, source, target);
    return std::min(time.count(), kLongest);
  }
  std::int64_t time(const Op& op) const {
    const StageTimes& times =
        (is_compute(op.kind) ? costs_of(op) : costs_).stages[placement_.stage[op.replica]];
    Duration alone = compute_lane_time(op.kind, times);
    // In a unit of several kinds its share of the unit's, which may be less.
    if (op.group != 0) alone = std::min(alone, overlapped_time(op.kind, times));
    // Slices that one op covers differ.
    if (op.span > 1 && !costs_.slices.empty()) return 0;
    const std::int64_t span = traits(op.kind).spans ? op.span : 1;
    return std::min(alone.count(), kLongest / span) * span;
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const StageCosts& costs_;
  std::vector<std::vector<ReplicaId>> before_, behind_;  // of each replica
  EndTimes forwards_, backwards_;
  EndTimes gradients_;  // of weights: when the last so far of each batch, not microbatch, is made
  std::vector<std::size_t> next_;  // op of each device
  std::vector<std::int64_t> now_;
};

}  // namespace

Duration least_period(const Schedule& schedule, const StageCosts& costs) {
  if (schedule.placement.devices == 0 || schedule.order[DeviceId{}].empty()) return {};
  return LongestWay(schedule, costs).run();
}

}  // namespace tandem
