// DualPipe and DualPipeV (DeepSeek-V3, arXiv 2412.19437 §3.2.1, and its released code): a device
// meets microbatches coming both ways, and does the forward of one and the backward of another as
// one unit. DualPipe sends them in from both ends of two copies of the model; DualPipeV folds the
// one copy into a V. The bubble is that of the device that waits most, (p/2 − 1)(X + B − 3W) and,
// in times of a chunk, (p − 1)(X + B − 3W) (tests/simulator/split_backward_test.cpp).

#include <deque>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// One of the two streams of microbatches that meet on a device: `first`, `first` + `step`, …
struct Stream {
  ReplicaId replica{};
  std::int32_t first = 0, step = 1;
  std::int32_t forwards = 0, backwards = 0;  // that are issued

  std::int32_t microbatch(std::int32_t i) const { return first + i * step; }
};

/// One device's order. Stream 0 enters the pipeline on this side, stream 1 comes back to it.
class DualPipeOrder {
 public:
  DualPipeOrder(std::vector<Op>& ops, const Stream& near, const Stream& far)
      : ops_(ops), streams_{near, far} {}

  /// `side`: devices of a side of the pipeline; `before`: of them before this one; `count`:
  /// microbatches of a stream.
  void make(std::int32_t side, std::int32_t before, std::int32_t count) {
    const std::int32_t behind = side - before - 1;
    for (std::int32_t i = 0; i < 2 * behind; ++i) go_forward(0);
    for (std::int32_t i = 0; i <= before; ++i) go_forward(0), go_forward(1);
    for (std::int32_t i = 0; i < behind; ++i) split_back(1), weigh(), go_forward(1);
    for (std::int32_t i = 0; i < count - 2 * side + before + 1; ++i) {
      const bool innermost = behind == 0 && i == 0;
      innermost ? (go_forward(0), go_back(1)) : both(0, 1);
      both(1, 0);
    }
    for (std::int32_t i = 0; i < behind; ++i) go_back(1), both(1, 0);
    // From the middle on nobody waits for more than the gradient of the input.
    for (std::int32_t i = 0; i <= 2 * before + 1; ++i)
      i <= before ? go_back(1 - i % 2) : split_back(1 - i % 2);
    for (std::int32_t i = 0; i < behind; ++i) weigh(), split_back(0);
    while (!unweighed_.empty()) weigh();
  }

 private:
  Op next_forward(int stream) {
    Stream& of = streams_[stream];
    return forward(of.replica, of.microbatch(of.forwards++));
  }
  Op next_backward(int stream) {
    Stream& of = streams_[stream];
    return backward(of.replica, of.microbatch(of.backwards++));
  }
  void go_forward(int stream) { ops_.push_back(next_forward(stream)); }
  void go_back(int stream) { ops_.push_back(next_backward(stream)); }
  void split_back(int stream) {
    const Op whole = next_backward(stream);
    ops_.push_back(backward_input(whole.replica, whole.microbatch));
    unweighed_.push_back(backward_weight(whole.replica, whole.microbatch));
  }
  void weigh() {
    ops_.push_back(unweighed_.front());
    unweighed_.pop_front();
  }
  /// Neighbouring units need different numbers.
  void both(int onward, int back) {
    group_ = group_ == 1 ? 2 : 1;
    for (Op op : {next_forward(onward), next_backward(back)}) {
      op.group = group_;
      ops_.push_back(op);
    }
  }

  std::vector<Op>& ops_;
  Stream streams_[2];
  std::deque<Op> unweighed_;
  std::uint8_t group_ = 0;
};

std::optional<std::string> too_few(std::string_view name, const ScheduleRequest& request) {
  const std::int64_t least = 2 * std::int64_t{request.devices};
  if (request.microbatches >= least) return std::nullopt;
  return fmt::format(
      "{} needs at least {} microbatches a batch for {} devices, found {}: with fewer, its two "
      "streams do not meet on every device",
      name, least, request.devices, request.microbatches);
}

}  // namespace

std::optional<std::string> reject_dual_pipe_v(const ScheduleRequest& request) {
  return too_few("dualpipev", request);
}

Schedule make_dual_pipe_v(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, v_placement(request.devices));
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<ReplicaId> replicas = schedule.placement.replicas_on(device);
    DualPipeOrder(schedule.order[device], {.replica = replicas[0]}, {.replica = replicas[1]})
        .make(request.devices, static_cast<std::int32_t>(index(device)), request.microbatches);
  }
  append_updates(schedule);
  return schedule;
}

std::optional<std::string> reject_dual_pipe(const ScheduleRequest& request) {
  if (auto reason = uneven_share("dualpipe", 2, request)) return reason;
  return too_few("dualpipe", request);
}

Schedule make_dual_pipe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, bidirectional_placement(request.devices));
  const std::int32_t p = request.devices;
  for (const DeviceId device : ids(schedule.order)) {
    const auto place = static_cast<std::int32_t>(index(device));
    const std::vector<ReplicaId> replicas = schedule.placement.replicas_on(device);
    const Stream down{.replica = replicas[0], .first = 0, .step = 2};
    const Stream up{.replica = replicas[1], .first = 1, .step = 2};
    const bool upper = place < p / 2;
    DualPipeOrder(schedule.order[device], upper ? down : up, upper ? up : down)
        .make(p / 2, std::min(place, p - 1 - place), request.microbatches / 2);
  }
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
