// V-Min, V-Half and V-ZB (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): a
// building block, which is the slots of one microbatch on all devices, repeated every six slots.
// How steeply its legs run sets the memory. What the repetition leaves idle before and after its
// stable phase is then filled from behind, without more memory.

#include "core/schedules/building_block.h"

#include <functional>
#include <utility>

#include "core/schedules/all.h"

namespace tandem {

namespace {

/// Moves ops of the filling and the draining phase to earlier idle slots, in the order of their
/// slots, as far as their sources and the cap allow. Without weights in the grid, a device is taken
/// to work on one in each idle slot, and the filling phase stays.
class Reordering {
 public:
  Reordering(VGrid grid, std::int32_t microbatches, std::int32_t cap, bool places_weights)
      : grid_(std::move(grid)),
        m_(static_cast<std::size_t>(microbatches)),
        places_weights_(places_weights),
        cap_(cap),
        places_(grid_.size() * kVLegs * m_),
        counts_(grid_.size()),
        backwards_(grid_.size()),
        after_last_weight_(grid_.size()),
        states_(grid_.size()) {
    for (std::size_t device = 0; device < grid_.size(); ++device) {
      State state;
      for (const VOp op : grid_[device]) {
        step(state, op);
        states_[device].push_back(state);
      }
    }
  }

  VGrid run() {
    const VGrid original = grid_;
    each_op(original, [&](std::size_t device, std::size_t slot) {
      take(device, original[device][slot], slot);
    });
    return std::move(grid_);
  }

 private:
  enum class Phase : std::uint8_t { filling, stable, draining };
  /// Of a device after a slot.
  struct State {
    std::int32_t held = 0, pending = 0;  // activations; weight gradients without a slot
    friend bool operator==(const State&, const State&) = default;
  };

  void step(State& state, VOp op) const {
    state.held += is_forward(op);
    if (is_weight(op)) --state.held;
    if (places_weights_) return;
    state.pending += is_backward(op);
    if (op == VOp::idle && state.pending > 0) --state.held, --state.pending;
  }

  std::size_t& place(std::size_t device, VOp leg, std::size_t microbatch) {
    return places_[(device * kVLegs + index(leg)) * m_ + microbatch];
  }

  void take(std::size_t device, VOp op, std::size_t slot) {
    const std::size_t microbatch = counts_[device][index(op)]++;
    if (device == 0 && op == VOp::backward_up && phase_ == Phase::filling) phase_ = Phase::stable;
    const bool all_in = counts_[0][index(VOp::forward_down)] == m_;
    const bool last_in = device == 0 && op == VOp::forward_down;
    if (phase_ == Phase::stable && all_in && !last_in) phase_ = Phase::draining;
    const bool stays = phase_ == Phase::stable || (phase_ == Phase::filling && !places_weights_);
    const std::size_t to = stays ? slot : move_up(device, op, microbatch, slot);
    if (is_leg(op)) place(device, op, microbatch) = to;
    if (is_backward(op)) {
      std::vector<std::size_t>& done = backwards_[device];
      done.insert(std::upper_bound(done.begin(), done.end(), to), to);
    }
    if (is_weight(op)) after_last_weight_[device] = to + 1;
  }

  /// The first slot behind what the op waits for and behind its kind's last. One weight gradient is
  /// like the other: the n-th waits for the n-th backward.
  std::size_t ready(std::size_t device, VOp op, std::size_t microbatch) {
    if (is_weight(op)) {
      const auto& counts = counts_[device];
      const std::size_t taken = counts[index(VOp::weight_down)] + counts[index(VOp::weight_up)];
      return std::max(backwards_[device][taken - 1] + 1, after_last_weight_[device]);
    }
    std::size_t first = microbatch > 0 ? place(device, op, microbatch - 1) + 1 : 0;
    const VSource source = source_of(device, op, grid_.size());
    if (source.op == VOp::idle) return first;
    return std::max(first, place(source.device, source.op, microbatch) + 1);
  }

  std::size_t move_up(std::size_t device, VOp op, std::size_t microbatch, std::size_t slot) {
    VRow& row = grid_[device];
    row[slot] = VOp::idle;
    for (std::size_t to = ready(device, op, microbatch); to < slot; ++to) {
      if (row[to] != VOp::idle) continue;
      row[to] = op;
      const std::size_t excess = places_weights_ ? first_excess_between(device, op, to, slot)
                                                 : first_excess(device, to, slot);
      if (excess == row.size()) {
        places_weights_ ? update_between(device, op, to, slot) : update_states(device, to, slot);
        return to;
      }
      row[to] = VOp::idle;
      if (places_weights_) to = excess;  // in any slot up to there it would be held there too
    }
    row[slot] = op;
    return slot;
  }

  /// What the device holds more between the slots of an op that moves up, where weights have slots
  /// of their own: nothing else changes then.
  static std::int32_t more_held(VOp op) { return is_forward(op) ? 1 : is_weight(op) ? -1 : 0; }
  /// As first_excess(), there.
  std::size_t first_excess_between(std::size_t device, VOp op, std::size_t to,
                                   std::size_t from) const {
    const std::int32_t more = more_held(op);
    for (std::size_t slot = to; more > 0 && slot < from; ++slot)
      if (states_[device][slot].held + more > cap_) return slot;
    return grid_[device].size();
  }
  void update_between(std::size_t device, VOp op, std::size_t to, std::size_t from) {
    for (std::size_t slot = to; slot < from; ++slot) states_[device][slot].held += more_held(op);
  }

  /// The first slot in which the device would hold more than the cap, an op having moved from
  /// `from` up to `to`; the row's size: none.
  std::size_t first_excess(std::size_t device, std::size_t to, std::size_t from) const {
    const VRow& row = grid_[device];
    State state = to > 0 ? states_[device][to - 1] : State{};
    for (std::size_t slot = to; slot < row.size(); ++slot) {
      step(state, row[slot]);
      if (state.held > cap_) return slot;
      if (slot >= from && state == states_[device][slot]) break;
    }
    return row.size();
  }

  void update_states(std::size_t device, std::size_t to, std::size_t from) {
    State state = to > 0 ? states_[device][to - 1] : State{};
    for (std::size_t slot = to; slot < states_[device].size(); ++slot) {
      step(state, grid_[device][slot]);
      if (slot >= from && state == states_[device][slot]) break;
      states_[device][slot] = state;
    }
  }

  VGrid grid_;
  const std::size_t m_;
  const bool places_weights_;
  const std::int32_t cap_;  // of activations of chunks
  Phase phase_ = Phase::filling;
  std::vector<std::size_t> places_;                     // by device, leg and microbatch
  std::vector<std::array<std::size_t, kVOps>> counts_;  // ops taken
  std::vector<std::vector<std::size_t>> backwards_;     // slots of those taken, ascending
  std::vector<std::size_t> after_last_weight_;
  std::vector<std::vector<State>> states_;  // after each slot
};

/// In the activations that the block needs by itself.
Schedule from_block(const ScheduleRequest& request,
                    const std::function<BlockRow(std::int64_t device)>& row_of) {
  Block block;
  for (std::int64_t device = 0; device < request.devices; ++device) block.push_back(row_of(device));
  VGrid grid = repeated(block, request.microbatches);
  const std::int32_t peak = highest_peak(grid);
  return schedule_of_grid(request, reordered(std::move(grid), request.microbatches, peak));
}

}  // namespace

VGrid repeated(const Block& block, std::int32_t microbatches) {
  const std::size_t turns = static_cast<std::size_t>(microbatches) - 1;
  VGrid grid;
  for (const BlockRow& row : block) {
    const auto last = static_cast<std::size_t>(*std::max_element(row.begin(), row.end()));
    grid.emplace_back(last + kBlockPeriod * turns + 1, VOp::idle);
    for (std::size_t leg = 0; leg < kVLegs; ++leg) {
      for (std::size_t i = 0; i <= turns; ++i)
        grid.back()[static_cast<std::size_t>(row[leg]) + kBlockPeriod * i] = static_cast<VOp>(leg);
    }
    fill_with_weights(grid.back());
  }
  return grid;
}

VGrid reordered(VGrid grid, std::int32_t microbatches, std::int32_t cap) {
  grid = squeezed(Reordering(std::move(grid), microbatches, cap, true).run(), microbatches);
  for (VRow& row : grid) remove_weights(row);
  grid = Reordering(std::move(grid), microbatches, cap, false).run();
  for (VRow& row : grid) fill_with_weights(row);
  grid = squeezed(grid, microbatches);
  for (VRow& row : grid) {
    remove_weights(row);
    fill_with_weights(row);
  }
  return grid;
}

// From device to device the legs run one slot down and one up. With p a multiple of 3 the backward
// waits two slots, or it would meet the forwards. Where times differ, idle time grows with m: at
// p = 4 and F, I, W = 3, 4, 2 by 6 a microbatch.
Schedule make_v_min(const ScheduleRequest& request) {
  const std::int64_t p = request.devices, wait = p % 3 == 0 ? 2 : 0;
  return from_block(request, [=](std::int64_t device) {
    return BlockRow{device, 2 * p - 1 - device, 2 * p + wait + device, 4 * p + wait - 1 - device};
  });
}

// Two slots down, one up; with even p the backward waits three.
Schedule make_v_half(const ScheduleRequest& request) {
  const std::int64_t p = request.devices, wait = p % 2 == 0 ? 3 : 0;
  return from_block(request, [=](std::int64_t device) {
    return BlockRow{2 * device, 3 * p - 2 - device, 3 * p + wait - 1 + 2 * device,
                    6 * p + wait - 2 - device};
  });
}

// Four slots down, two up: a round of the device's six, so no device meets what another does not.
// The paper gives no slots for it.
Schedule make_v_zero_bubble(const ScheduleRequest& request) {
  const std::int64_t p = request.devices;
  return from_block(request, [=](std::int64_t device) {
    return BlockRow{4 * device, 6 * p - 5 - 2 * device, 6 * p - 4 + 4 * device,
                    12 * p - 9 - 2 * device};
  });
}

}  // namespace tandem
