#include <cstddef>
#include <vector>

#include "core/base/check.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// Ops one after the other on each device, each as soon as its input is there.
class Replay {
 public:
  Replay(const Schedule& schedule, const ScheduleRequest& request)
      : schedule_(schedule),
        request_(request),
        m_(static_cast<std::size_t>(schedule.microbatches)),
        forwards_(schedule.placement.replicas() * m_, kNotYet),
        backwards_(forwards_) {}

  Duration span() {
    std::vector<std::size_t> next(schedule_.order.size(), 0);
    std::vector<Duration> now(schedule_.order.size()), first(schedule_.order.size());
    for (bool moves = true; moves;) {
      moves = false;
      for (const DeviceId device : ids(schedule_.order)) {
        const std::vector<Op>& ops = schedule_.order[device];
        std::size_t& at = next[index(device)];
        for (; at < ops.size() && is_compute(ops[at].kind); ++at, moves = true) {
          const Duration ready = arrival(ops[at]);
          if (ready == kNotYet) break;
          Duration& clock = now[index(device)];
          const Duration start = std::max(clock, ready);
          if (at == 0) first[index(device)] = start;
          clock = start + time(ops[at]);
          if (ops[at].kind == OpKind::forward) forwards_[place(ops[at])] = clock;
          if (makes_input_gradient(ops[at].kind)) backwards_[place(ops[at])] = clock;
        }
      }
    }
    Duration longest{};
    for (const DeviceId device : ids(schedule_.order)) {
      const std::vector<Op>& ops = schedule_.order[device];
      const std::size_t at = next[index(device)];
      TANDEM_CHECK(at == ops.size() || !is_compute(ops[at].kind), index(device), at);
      longest = std::max(longest, now[index(device)] - first[index(device)]);
    }
    return longest;
  }

 private:
  static constexpr Duration kNotYet = Duration::min();

  std::size_t place(const Op& op) const {
    return index(op.replica) * m_ + static_cast<std::size_t>(op.microbatch);
  }

  Duration time(const Op& op) const {
    const StageOrderCosts costs = request_.costs_of(schedule_.placement.stage[op.replica]);
    if (op.kind == OpKind::forward) return costs.forward;
    if (op.kind == OpKind::backward_input) return costs.backward_input;
    if (op.kind == OpKind::backward_weight) return costs.backward_weight;
    return costs.backward_input + costs.backward_weight;
  }

  Duration arrival(const Op& op) const {
    const std::size_t replica = index(op.replica), last = schedule_.placement.replicas() - 1;
    if (op.kind == OpKind::backward_weight) return {};
    if (op.kind == OpKind::forward)
      return replica == 0 ? Duration{} : over_edge(forwards_[place(op) - m_], replica, replica - 1);
    if (replica == last) return forwards_[place(op)];
    return over_edge(backwards_[place(op) + m_], replica, replica + 1);
  }

  Duration over_edge(Duration end, std::size_t to, std::size_t from) const {
    const Table<ReplicaId, DeviceId>& device = schedule_.placement.device;
    if (end == kNotYet || !request_.costs) return end;
    const std::size_t here = index(device[id_at<ReplicaId>(to)]);
    const std::size_t there = index(device[id_at<ReplicaId>(from)]);
    return here == there ? end : end + request_.costs->transfer_after(std::min(here, there));
  }

  const Schedule& schedule_;
  const ScheduleRequest& request_;
  const std::size_t m_;
  std::vector<Duration> forwards_, backwards_;  // ends, by stage and microbatch
};

}  // namespace

Duration span_of(const Schedule& schedule, const ScheduleRequest& request) {
  return Replay(schedule, request).span();
}

Duration longest_work(const Placement& placement, const ScheduleRequest& request) {
  Table<DeviceId, Duration> work(placement.devices);
  for (const ReplicaId replica : ids(placement.device)) {
    const StageOrderCosts costs = request.costs_of(placement.stage[replica]);
    work[placement.device[replica]] += costs.forward + costs.backward_input + costs.backward_weight;
  }
  return *std::max_element(work.begin(), work.end()) * request.microbatches;
}

}  // namespace tandem
