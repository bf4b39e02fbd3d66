// ZBV's automatic scheduler (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, and
// its authors' generator): orders the ops of a V by the times of each stage, in the activations of
// 1F1B. Greedy in rounds of one backward and one forward a device; weight gradients fill what would
// be waited, and what others wait anyway is free.

#include <array>
#include <cmath>
#include <deque>

#include "core/schedules/all.h"
#include "core/schedules/common.h"
#include "core/schedules/v_grid.h"

namespace tandem {

namespace {

/// Whether a weight gradient goes into a gap that is too short for it, before forwards and before
/// backwards of the second chunk.
struct ZeroBubbleVPolicy {
  bool before_forwards = true, before_backwards = true;
};

/// One greedy order. Times are counted from 0, transfers occupy no link.
class ZeroBubbleVTrial {
 public:
  /// `free_bubbles`: what each device waited in an order before this one.
  ZeroBubbleVTrial(const ScheduleRequest& request, ZeroBubbleVPolicy policy,
                   std::vector<std::int64_t> free_bubbles)
      : policy_(policy),
        microbatches_(request.microbatches),
        cap_(2 * request.devices * kActivation),
        free_bubbles_(std::move(free_bubbles)),
        devices_(request.devices) {
    for (const std::int64_t bubble : free_bubbles_) most_free_ = std::max(most_free_, bubble);
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      Device& device = devices_[j];
      const bool sends = request.costs && j + 1 < devices_.size();
      device.to_next = sends ? request.costs->transfer_after(j).count() : 0;
      for (const bool second : {false, true}) {
        const std::size_t stage = second ? 2 * devices_.size() - 1 - j : j;
        const StageOrderCosts costs = request.costs_of(id_at<StageId>(stage));
        device.times[index(second ? VOp::forward_up : VOp::forward_down)] = costs.forward.count();
        device.times[index(second ? VOp::backward_down : VOp::backward_up)] =
            costs.backward_input.count();
        device.times[index(second ? VOp::weight_down : VOp::weight_up)] =
            costs.backward_weight.count();
        device.kept[second ? 0 : 1] = std::llround(costs.kept * kActivation);
      }
    }
  }

  /// False: stuck, with ops that wait for one another or for memory.
  bool make() {
    fill();
    level();
    for (bool moves = true; moves;) {
      const bool back = go_back();  // both, whatever the first does
      moves = go_forward() || back;
    }
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      while (!devices_[j].pending.empty()) put_weight(j);
      if (devices_[j].done[index(VOp::weight_up)] < microbatches_) return false;
      if (devices_[j].done[index(VOp::weight_down)] < microbatches_) return false;
    }
    return true;
  }

  /// The longest time of a device between its first op's start and its last one's end.
  std::int64_t span() const {
    std::int64_t longest = 0;
    for (const Device& device : devices_) {
      const std::size_t first = index(VOp::forward_down);
      longest = std::max(longest, device.now - (device.ends[first].front() - device.times[first]));
    }
    return longest;
  }

  std::vector<std::int64_t> bubbles() const {
    std::vector<std::int64_t> all;
    for (const Device& device : devices_) all.push_back(device.bubble);
    return all;
  }

  VGrid order() const {
    VGrid grid;
    for (const Device& device : devices_) grid.push_back(device.order);
    return grid;
  }

 private:
  struct Device {
    std::array<std::int64_t, kVOps> times{};
    std::array<std::int64_t, 2> kept{};  // by weight_down, weight_up
    std::int64_t now = 0, held = 0;
    std::int64_t bubble = 0;   // idle time since the first forward
    std::int64_t to_next = 0;  // of a transfer, there or back
    std::array<std::int32_t, kVOps> done{};
    std::array<std::vector<std::int64_t>, kVLegs> ends;
    std::deque<VOp> pending;  // weight gradients, oldest first
    VRow order;
  };

  /// When the input of a device's next op is there; 0: the device made it itself; empty: not placed
  /// yet.
  std::optional<std::int64_t> arrival(std::size_t j, VOp leg) const {
    const auto microbatch = static_cast<std::size_t>(devices_[j].done[index(leg)]);
    const VSource source = source_of(j, leg, devices_.size());
    if (source.op == VOp::idle) return 0;
    const std::vector<std::int64_t>& ends = devices_[source.device].ends[index(source.op)];
    if (microbatch >= ends.size()) return std::nullopt;
    return source.device == j ? 0 : ends[microbatch] + devices_[std::min(j, source.device)].to_next;
  }

  void put(std::size_t j, VOp op, std::int64_t arrival) {
    Device& device = devices_[j];
    const std::int64_t start = std::max(device.now, arrival);
    if (!device.order.empty()) device.bubble += start - device.now;
    most_bubble_ = std::max(most_bubble_, device.bubble);
    device.now = start + device.times[index(op)];
    if (is_leg(op)) device.ends[index(op)].push_back(device.now);
    if (is_forward(op)) device.held += kActivation;
    if (is_backward(op)) {
      device.held += device.kept[index(op) - index(VOp::backward_down)] - kActivation;
      device.pending.push_back(weight_of(op));
    }
    if (is_weight(op)) device.held -= device.kept[index(op) - index(VOp::weight_down)];
    ++device.done[index(op)];
    device.order.push_back(op);
  }

  void put_weight(std::size_t j) {
    const VOp weight = devices_[j].pending.front();
    devices_[j].pending.pop_front();
    put(j, weight, 0);
  }

  bool is_done(std::size_t j, VOp op) const { return devices_[j].done[index(op)] >= microbatches_; }

  /// The next op of a leg, if its input is placed and the device has room for it.
  bool put_if_ready(std::size_t j, VOp leg) {
    if (is_done(j, leg)) return false;
    const std::optional<std::int64_t> ready = arrival(j, leg);
    if (!ready || (is_forward(leg) && devices_[j].held + kActivation > cap_)) return false;
    put(j, leg, *ready);
    return true;
  }

  /// The same behind weight gradients that make room and fill the wait.
  bool put_filled(std::size_t j, VOp leg, bool fills_short_gap) {
    if (is_done(j, leg)) return false;
    const std::optional<std::int64_t> ready = arrival(j, leg);
    if (!ready) return false;
    Device& device = devices_[j];
    while (is_forward(leg) && device.held + kActivation > cap_) {
      if (device.pending.empty()) return false;
      put_weight(j);
    }
    const auto weight = [&] { return device.times[index(device.pending.front())]; };
    while (!device.pending.empty() && *ready >= device.now + weight()) put_weight(j);
    const std::int64_t others =
        std::max(most_bubble_, free_bubbles_.empty() ? 0 : most_free_ - free_bubbles_[j]);
    const bool delays = *ready - device.now > others - device.bubble;
    if (!device.pending.empty() && delays && fills_short_gap) put_weight(j);
    put(j, leg, *ready);
    return true;
  }

  /// The first microbatch's forwards, and in what they wait for the turn those of others.
  void fill() {
    const std::size_t p = devices_.size();
    for (std::size_t j = 0; j < p; ++j) put_if_ready(j, VOp::forward_down);
    for (std::size_t j = p; j-- > 0;) {
      const Device& device = devices_[j];
      const auto room = static_cast<std::int64_t>(2 + 2 * j) * kActivation;
      const std::int64_t turn = arrival(j, VOp::forward_up).value_or(0);
      const std::int64_t forward = device.times[index(VOp::forward_down)];
      while (device.held + room <= cap_ && device.now + forward <= turn &&
             !is_done(j, VOp::forward_down)) {
        for (std::size_t before = 0; before <= j; ++before) put_if_ready(before, VOp::forward_down);
      }
      put_if_ready(j, VOp::forward_up);
    }
  }

  /// As many forwards on each device as on the one before it, by turns of both chunks.
  void level() {
    VOp leg = VOp::forward_down;
    for (std::size_t j = 1; j < devices_.size(); ++j) {
      const auto up = [&](std::size_t of) { return devices_[of].done[index(VOp::forward_up)]; };
      const auto all = [&](std::size_t of) {
        return up(of) + devices_[of].done[index(VOp::forward_down)];
      };
      for (int idle = 0; idle < 2;) {
        const bool level =
            all(j) >= all(j - 1) && (up(j) > up(j - 1) || up(j - 1) == microbatches_);
        if (level) break;
        bool moves = false;
        for (std::size_t behind = devices_.size(); behind-- > j;)
          moves = put_if_ready(behind, leg) || moves;
        leg = leg == VOp::forward_down ? VOp::forward_up : VOp::forward_down;
        idle = moves ? 0 : idle + 1;
      }
    }
  }

  /// The second chunk's gradient goes on to the first chunk as soon as it has come back.
  VOp next_backward(std::size_t j) const {
    const Device& device = devices_[j];
    const bool ahead =
        device.done[index(VOp::backward_up)] < device.done[index(VOp::backward_down)];
    const bool comes = arrival(j, VOp::backward_up) || is_done(j, VOp::backward_down);
    return ahead && comes ? VOp::backward_up : VOp::backward_down;
  }

  bool go_back() {
    std::vector<VOp> legs;
    for (std::size_t j = 0; j < devices_.size(); ++j) legs.push_back(next_backward(j));
    bool moves = false;
    for (std::size_t j = devices_.size(); j-- > 0;) {
      if (legs[j] == VOp::backward_up) moves = put_filled(j, legs[j], true) || moves;
    }
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      if (legs[j] != VOp::backward_down) continue;
      moves = put_filled(j, legs[j], policy_.before_backwards) || moves;
    }
    return moves;
  }

  /// The second chunk's where its input has come back.
  bool go_forward() {
    bool moves = false;
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      const Device& device = devices_[j];
      const bool ahead =
          device.done[index(VOp::forward_up)] < device.done[index(VOp::forward_down)];
      const bool up = ahead && arrival(j, VOp::forward_up);
      moves =
          put_filled(j, up ? VOp::forward_up : VOp::forward_down, policy_.before_forwards) || moves;
    }
    return moves;
  }

  const ZeroBubbleVPolicy policy_;
  const std::int32_t microbatches_;
  const std::int64_t cap_;  // of activations of a chunk
  const std::vector<std::int64_t> free_bubbles_;
  std::int64_t most_free_ = 0;
  std::vector<Device> devices_;
  std::int64_t most_bubble_ = 0;  // of any device: as much is free on all
};

}  // namespace

Schedule make_zero_bubble_v_auto(const ScheduleRequest& request) {
  const std::int64_t least =
      longest_work(v_placement(request.devices), request).count();  // no span is shorter
  std::optional<ZeroBubbleVTrial> best;
  for (const unsigned bits : {3u, 2u, 1u, 0u}) {
    const ZeroBubbleVPolicy policy{.before_forwards = (bits & 1u) != 0,
                                   .before_backwards = (bits & 2u) != 0};
    std::optional<ZeroBubbleVTrial> last;
    for (;;) {  // again, with what was waited known before, while that helps
      ZeroBubbleVTrial trial(request, policy, last ? last->bubbles() : std::vector<std::int64_t>());
      if (!trial.make() || (last && trial.span() >= last->span())) break;
      last.emplace(std::move(trial));
      if (last->span() == least) return schedule_of_grid(request, last->order());
    }
    if (last && (!best || last->span() < best->span())) best.emplace(std::move(*last));
  }
  // Greedy orders miss some that are well known, and may get stuck.
  Schedule handcrafted = make_zero_bubble_v(request);
  if (!best || span_of(handcrafted, request).count() < best->span()) return handcrafted;
  return schedule_of_grid(request, best->order());
}

}  // namespace tandem
