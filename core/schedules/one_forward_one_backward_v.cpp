// 1F1B in a V (the authors of Pipeline Parallelism with Controllable Memory, arXiv 2405.15362):
// whole backwards, two slots each, in a building block repeated every six slots; then every op as
// early as what it waits for and the memory of the block allow. Two thirds of 1F1B's activations.

#include <utility>

#include "core/schedules/all.h"
#include "core/schedules/building_block.h"

namespace tandem {

namespace {

/// Forwards in consecutive slots; backwards every second one, but for three slots after each third,
/// so that no two ops of a device meet.
Block block_of(std::int64_t devices) {
  Block block(static_cast<std::size_t>(devices));
  std::int64_t slot = 0;
  for (std::size_t i = 0; i < block.size(); ++i) block[i][index(VOp::forward_down)] = slot++;
  for (std::size_t i = block.size(); i-- > 0;) block[i][index(VOp::forward_up)] = slot++;
  if (devices % 3 == 0) slot += 3;
  std::int64_t run = (3 - (devices + 2) % 3) % 3;  // backwards since the last such gap
  const auto next = [&] {
    const std::int64_t now = slot;
    slot += ++run % 3 == 0 ? 5 : 2;
    return now;
  };
  for (std::size_t i = 0; i < block.size(); ++i) block[i][index(VOp::backward_down)] = next();
  for (std::size_t i = block.size(); i-- > 0;) block[i][index(VOp::backward_up)] = next();
  return block;
}

/// A weight gradient stands right behind its input gradient, and moves with it.
class Advance {
 public:
  Advance(VGrid grid, std::int32_t microbatches)
      : grid_(std::move(grid)),
        m_(static_cast<std::size_t>(microbatches)),
        ends_(grid_.size() * kVLegs * m_),
        counts_(grid_.size()) {
    for (const VRow& row : grid_) {
      std::vector<std::int32_t>& held = held_.emplace_back();
      std::int32_t now = 0;
      for (const VOp op : row) {
        now += is_forward(op) ? 1 : is_weight(op) ? -1 : 0;
        held.push_back(now);
        peak_ = std::max(peak_, now);
      }
    }
  }

  VGrid run() {
    each_op(grid_, [this](std::size_t device, std::size_t slot) {
      const VOp op = grid_[device][slot];
      if (is_leg(op)) take(device, op, slot);
    });
    return std::move(grid_);
  }

 private:
  std::size_t& end(std::size_t device, VOp leg, std::size_t microbatch) {
    return ends_[(device * kVLegs + index(leg)) * m_ + microbatch];
  }

  void take(std::size_t device, VOp op, std::size_t slot) {
    const std::size_t microbatch = counts_[device][index(op)]++;
    const VSource source = source_of(device, op, grid_.size());
    std::size_t ready = microbatch > 0 ? end(device, op, microbatch - 1) : 0;
    if (source.op != VOp::idle) ready = std::max(ready, end(source.device, source.op, microbatch));
    const std::size_t to =
        is_forward(op) ? move_forward(device, ready, slot) : move_backward(device, op, ready, slot);
    end(device, op, microbatch) = to + (is_forward(op) ? 1 : 2);
  }

  std::size_t move_forward(std::size_t device, std::size_t ready, std::size_t slot) {
    VRow& row = grid_[device];
    std::vector<std::int32_t>& held = held_[device];
    std::size_t to = slot;
    while (to > ready && held[to - 1] < peak_) --to;
    while (to < slot && row[to] != VOp::idle) ++to;
    for (std::size_t i = to; i < slot; ++i) ++held[i];
    std::swap(row[to], row[slot]);
    return to;
  }

  std::size_t move_backward(std::size_t device, VOp op, std::size_t ready, std::size_t slot) {
    VRow& row = grid_[device];
    row[slot] = row[slot + 1] = VOp::idle;
    std::size_t to = ready;
    while (to < slot && (row[to] != VOp::idle || row[to + 1] != VOp::idle)) ++to;
    row[to] = op;
    row[to + 1] = weight_of(op);
    for (std::size_t i = to + 1; i < slot + 1; ++i) --held_[device][i];
    return to;
  }

  VGrid grid_;
  const std::size_t m_;
  std::vector<std::size_t> ends_;  // by device, leg and microbatch
  std::vector<std::array<std::size_t, kVLegs>> counts_;
  std::vector<std::vector<std::int32_t>> held_;  // after each slot
  std::int32_t peak_ = 0;
};

}  // namespace

Schedule make_one_forward_one_backward_v(const ScheduleRequest& request) {
  const std::int32_t m = request.microbatches;
  return schedule_of_grid(request, Advance(repeated(block_of(request.devices), m), m).run(), false);
}

}  // namespace tandem
