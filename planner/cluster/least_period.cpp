#include "planner/cluster/least_period.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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
    const std::size_t slices = std::max<std::size_t>(costs.slices.size(), 1);
    times_.assign(slices * placement_.replicas() * kOpKinds * 2, kUnknown);
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
  static constexpr std::int64_t kUnknown = -1;

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
    return wait_for(forwards_, std::span(&op.replica, 1), op, start) &&
           wait_for(backwards_, behind_[index(op.replica)], op, start);
  }

  bool wait_for(EndTimes& ends, std::span<const ReplicaId> sources, const Op& op,
                std::int64_t& start) {
    for (const ReplicaId source : sources) {
      const std::int64_t end = ends.at(source, op.microbatch);
      if (end == EndTimes::kExpected) return false;
      if (end == EndTimes::kAbsent) continue;
      start = std::max(start, end + transfer(op, source));
    }
    return true;
  }

  std::size_t slice_of(const Op& op) const {
    return costs_.slices.empty() ? 0 : static_cast<std::size_t>(op.microbatch % schedule_.slices);
  }
  const StageCosts& costs_of(const Op& op) const {
    return costs_.slices.empty() ? costs_ : costs_.slices[slice_of(op)];
  }
  std::int64_t transfer(const Op& op, ReplicaId from) const {
    const DeviceId source = placement_.device[from], target = placement_.device[op.replica];
    if (source == target) return 0;
    const Duration time = transfer_time(costs_of(op), placement_.devices, source, target);
    return std::min(time.count(), kLongest);
  }
  std::int64_t time(const Op& op) {
    // Slices that one op covers differ.
    if (op.span > 1 && !costs_.slices.empty()) return 0;
    const bool in_unit = op.group != 0;
    std::int64_t& alone =
        times_[((slice_of(op) * placement_.replicas() + index(op.replica)) * kOpKinds +
                index(op.kind)) *
                   2 +
               (in_unit ? 1 : 0)];
    if (alone == kUnknown) alone = alone_time(op, in_unit);
    const std::int64_t span = traits(op.kind).spans ? op.span : 1;
    return span == 1 ? alone : std::min(alone, kLongest / span) * span;
  }
  std::int64_t alone_time(const Op& op, bool in_unit) const {
    const StageTimes& times =
        (is_compute(op.kind) ? costs_of(op) : costs_).stages[placement_.stage[op.replica]];
    Duration alone = compute_lane_time(op.kind, times);
    // In a unit of several kinds its share of the unit's, which may be less.
    if (in_unit) alone = std::min(alone, overlapped_time(op.kind, times));
    return std::min(alone.count(), kLongest);
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const StageCosts& costs_;
  std::vector<std::vector<ReplicaId>> before_, behind_;  // of each replica
  EndTimes forwards_, backwards_;
  EndTimes gradients_;  // of weights: when the last so far of each batch, not microbatch, is made
  std::vector<std::size_t> next_;  // op of each device
  std::vector<std::int64_t> now_;
  std::vector<std::int64_t> times_;  // of ops, by slice, replica, kind and whether it is in a unit
};

/// What a device that holds several stages does at least, by an outline; nanoseconds.
class OutlinedPeriod {
 public:
  OutlinedPeriod(const ScheduleOutline& outline, std::int32_t width, const StageCosts& costs)
      : outline_(outline), placement_(outline.placement()), width_(width), costs_(costs) {
    if (costs.slices.empty())
      slices_.push_back(&costs);
    else
      for (const StageCosts& slice : costs.slices) slices_.push_back(&slice);
    microbatches_ = static_cast<double>(outline.passes) / static_cast<double>(slices_.size());
    for (const StageId stage : ids(costs.stages)) stages_.push_back(times_of(stage));
  }

  double run() const {
    double most = 0.0;
    for (const double busy : busy_for()) most = std::max(most, busy);
    return outline_.flushes ? std::max(most, of_a_flush()) : most;
  }

 private:
  /// Of a stage.
  struct Times {
    double inputs = 0.0, weights = 0.0;              // of a microbatch: outputs and gradients
    double first_inputs = 0.0, first_weights = 0.0;  // of the first slice of each
    double update = 0.0;
  };

  Times times_of(StageId stage) const {
    const OpCounts& counts = outline_.work.counts(id_at<ReplicaId>(index(stage)));
    Times all;
    for (std::size_t row = 0; row < kOpKinds; ++row) {
      const auto kind = static_cast<OpKind>(row);
      const std::int64_t passes = counts[row] / outline_.passes;
      if (passes == 0) {
        all.update += static_cast<double>(counts[row] * alone(kind, costs_.stages[stage]));
        continue;
      }
      // Slices that one op covers differ.
      if (outline_.spans && traits(kind).spans && slices_.size() > 1) continue;
      const bool weights_alone = makes_weight_gradient(kind) && !makes_input_gradient(kind);
      for (const StageCosts* slice : slices_) {
        const auto time = static_cast<double>(passes * alone(kind, slice->stages[stage]));
        (weights_alone ? all.weights : all.inputs) += time;
        if (slice == slices_.front())
          (weights_alone ? all.first_weights : all.first_inputs) += time;
      }
    }
    return all;
  }

  std::int64_t alone(OpKind kind, const StageTimes& times) const {
    const Duration time = compute_lane_time(kind, times);
    return (outline_.overlaps ? std::min(time, overlapped_time(kind, times)) : time).count();
  }

  /// Of each device, in a batch.
  std::vector<double> busy_for() const {
    std::vector<double> busy(placement_.devices, 0.0);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const Times& of = stages_[stage];
      busy[device_of(stage)] += microbatches_ * (of.inputs + of.weights) + of.update;
    }
    return busy;
  }

  /// A batch's first microbatch comes to a stage through those before it, and its last gradient
  /// goes back through them to the first stage, which then updates its weights, after their sum,
  /// before the next batch. Between the two the stage's device makes the outputs and the inputs'
  /// gradients of that stage and of those behind it that it holds.
  double of_a_flush() const {
    const Times& first = stages_.front();
    double behind = first.update + first.first_weights;
    if (width_ > 1) behind += static_cast<double>(costs_.stages[StageId{}].reduce.count());
    std::vector<double> later(placement_.devices, 0.0);  // of the device's stages from this one on
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      later[device_of(stage)] += microbatches_ * stages_[stage].inputs;
    // All gradients of the first stage's weights are made before its update.
    double most = later.front() + microbatches_ * first.weights + behind - first.first_weights;
    double before = 0.0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      most = std::max(most, before + later[device_of(stage)] + behind);
      later[device_of(stage)] -= microbatches_ * stages_[stage].inputs;
      before += stages_[stage].first_inputs + there_and_back(stage);
    }
    return most;
  }

  /// Of the first slice, between a stage and the next.
  double there_and_back(std::size_t stage) const {
    if (stage + 1 == stages_.size()) return 0.0;
    const DeviceId from = placement_.device[id_at<ReplicaId>(stage)],
                   to = placement_.device[id_at<ReplicaId>(stage + 1)];
    if (from == to) return 0.0;
    const StageCosts& costs = *slices_.front();
    return static_cast<double>(transfer_time(costs, placement_.devices, from, to).count()) +
           static_cast<double>(transfer_time(costs, placement_.devices, to, from).count());
  }

  std::size_t device_of(std::size_t stage) const {
    return index(placement_.device[id_at<ReplicaId>(stage)]);
  }

  const ScheduleOutline& outline_;
  const Placement& placement_;
  const std::int32_t width_;
  const StageCosts& costs_;
  std::vector<const StageCosts*> slices_;  // of them, or what whole sequences cost
  double microbatches_ = 0.0;
  std::vector<Times> stages_;
};

}  // namespace

Duration least_period(const ScheduleOutline& outline, std::int32_t width, const StageCosts& costs) {
  constexpr double kMost = 0x1p53;  // until there (104 days) sums of nanoseconds are exact
  return Duration(
      static_cast<std::int64_t>(std::min(OutlinedPeriod(outline, width, costs).run(), kMost)));
}

Duration least_period(const Schedule& schedule, const StageCosts& costs) {
  if (schedule.placement.devices == 0 || schedule.order[DeviceId{}].empty()) return {};
  return LongestWay(schedule, costs).run();
}

}  // namespace tandem
