// ZBV (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): each device holds the
// first and the last of the stages not yet given out, so that a microbatch comes back to the device
// where it began. Zero bubble in the activations of 1F1B.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// One device's order, made for as many microbatches as fill the pipeline; those that the batch
/// doesn't have are left out.
class ZeroBubbleVOrder {
 public:
  ZeroBubbleVOrder(std::vector<Op>& ops, ReplicaId first, ReplicaId second,
                   std::int32_t microbatches)
      : ops_(ops), first_{first}, second_{second}, microbatches_(microbatches) {}

  void make(std::int32_t devices, std::int32_t device) {
    const std::int32_t filling = std::max(2 * devices - 1, microbatches_);
    const std::int32_t behind = devices - device;  // this device and those after it
    for (std::int32_t i = 0; i < 2 * behind - 1; ++i) go_forward(first_);
    for (std::int32_t i = 0; i < device; ++i) go_forward(second_), go_forward(first_);
    for (std::int32_t i = 0; i < behind; ++i) go_forward(second_), go_back(second_);
    while (second_.forwards < first_.forwards || first_.forwards < filling) {
      if (first_.forwards < filling) go_forward(first_);
      go_back(first_);
      go_forward(second_);
      go_back(second_);
    }
    for (std::int32_t i = 0; i < device; ++i) pass_back(first_), pass_back(second_);
    for (std::int32_t i = 0; i < behind; ++i) pass_back(first_), weigh(first_);
    while (second_.weights < filling) weigh(second_);
    while (first_.weights < filling) weigh(first_);
  }

 private:
  struct Chunk {
    ReplicaId replica;
    std::int32_t forwards = 0, backwards = 0, weights = 0;  // microbatches that are issued
  };

  void add(const Op& op) {
    if (op.microbatch < microbatches_) ops_.push_back(op);
  }
  void go_forward(Chunk& chunk) { add(forward(chunk.replica, chunk.forwards++)); }
  void pass_back(Chunk& chunk) { add(backward_input(chunk.replica, chunk.backwards++)); }
  void weigh(Chunk& chunk) { add(backward_weight(chunk.replica, chunk.weights++)); }
  void go_back(Chunk& chunk) {
    pass_back(chunk);
    weigh(chunk);
  }

  std::vector<Op>& ops_;
  Chunk first_, second_;
  const std::int32_t microbatches_;
};

}  // namespace

Schedule make_zero_bubble_v(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, v_placement(request.devices));
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<ReplicaId> replicas = schedule.placement.replicas_on(device);
    std::vector<Op>& ops = schedule.order[device];
    ZeroBubbleVOrder(ops, replicas[0], replicas[1], request.microbatches)
        .make(request.devices, static_cast<std::int32_t>(index(device)));
  }
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
