// BPipe (Kim et al., ICML 2023): the order of 1F1B, with the activations of each pair of devices
// shared out evenly between the two. The first devices of a pipeline hold the most: what is too
// much for device x goes to device p−1−x after its forward, and comes back before its backward.
//
// Which microbatches leave is a construction of our own, within the paper's bound: p/2 + 1 on every
// device. Device x holds d = min(m, p−x) in 1F1B. If that is more, of each d in a row e = d − p/2
// leave, spread as evenly as can be. As 2e ≤ d never two neighbours do. So one slot, taken in turn,
// serves all that leave, beside the p/2 slots of those that stay; and while it changes hands, one
// going and the next one coming, the device has a backward and a forward to do. At the partner,
// which holds x + 1 of its own, there are never more than e ≤ p/2 − x hosted stashes.
//
// Where a stash moves there and back in F + B the times are those of 1F1B; where a move takes M >
// (F+B)/2, two microbatches take F + B + 2M instead of 2(F + B)
// (tests/simulator/eviction_test.cpp).

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// Of `in_flight` microbatches in a row `leaving` are evicted, by their distance from the batch's
/// last one, which stays.
struct Share {
  std::int32_t microbatches = 0, in_flight = 1, leaving = 0;

  bool evicts(std::int32_t microbatch) const {
    const std::int64_t after = microbatches - 1 - microbatch;
    return (after + 1) * leaving / in_flight > after * leaving / in_flight;
  }
};

Share share_of(ReplicaId replica, const ScheduleRequest& request) {
  const std::int32_t half = request.devices / 2, m = request.microbatches;
  const std::int32_t in_flight =
      std::min(m, static_cast<std::int32_t>(request.devices - index(replica)));
  return {m, in_flight, in_flight > half + 1 ? in_flight - half : 0};
}

/// Each eviction right after its forward; each load one op before its backward.
std::vector<Op> with_evictions(const std::vector<Op>& order, const Share& share) {
  std::vector<Op> with;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Op& op = order[i];
    const bool more = i + 1 < order.size() && order[i + 1].kind == OpKind::backward;
    if (more && share.evicts(order[i + 1].microbatch)) {
      with.push_back(
          {.kind = OpKind::load, .replica = op.replica, .microbatch = order[i + 1].microbatch});
    }
    with.push_back(op);
    if (op.kind == OpKind::forward && share.evicts(op.microbatch))
      with.push_back({.kind = OpKind::evict, .replica = op.replica, .microbatch = op.microbatch});
  }
  return with;
}

}  // namespace

std::optional<std::string> reject_bpipe(const ScheduleRequest& request) {
  if (request.post_validation) {
    return "bpipe evicts stashes, which post-validation may have to make again: clip without it, "
           "or take 1f1b";
  }
  if (request.devices % 2 == 0) return std::nullopt;
  return fmt::format(
      "bpipe pairs each device with another, so it needs an even number, found {}: take {}{}",
      request.devices, request.devices > 1 ? fmt::format("{} or ", request.devices - 1) : "",
      request.devices + 1);
}

Schedule make_bpipe(const ScheduleRequest& request) {
  Schedule schedule = make_one_forward_one_backward(request);
  pair_devices(schedule.placement);
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    order = with_evictions(order, share_of(replica, request));
  }
  return schedule;
}

}  // namespace tandem
