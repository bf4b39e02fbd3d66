// Zero bubble's automatic scheduler (arXiv 2401.10241 §3.1, and its authors' refinements): orders
// the ops of a pipeline by the times of each of its stages, within a cap of activations. Greedy, by
// three choices that are tried both ways; the best of the eight orders and the handcrafted ones
// counts.

#include <array>
#include <cmath>

#include "core/base/check.h"
#include "core/base/progress.h"
#include "core/schedules/all.h"
#include "core/schedules/common.h"
#include "core/schedules/order_problem.h"

namespace tandem {

namespace {

struct ZeroBubblePolicy {
  bool waits_before_backward = true;  // forwards ahead only as far as they end before the backward
  bool backward_first = true;         // a forward waits where the next device has enough of them
  bool fills_small_gaps = true;  // a weight gradient goes where it delays no more than others wait
};

/// One greedy order. Times are counted from 0, transfers occupy no link.
class ZeroBubbleTrial {
 public:
  ZeroBubbleTrial(const ScheduleRequest& request, double cap, ZeroBubblePolicy policy)
      : policy_(policy),
        microbatches_(request.microbatches),
        cap_(std::llround(std::min(cap, 1.0 * request.microbatches) * kActivation)) {
    const OrderProblem problem = order_problem(request);
    for (const OrderProblem::Device& device : problem.devices) devices_.push_back({device});
  }

  void make() {
    fill();
    for (std::int32_t i = 1; i < microbatches_; ++i) {
      keep_going();
      go_forward();
      go_back();
    }
    for (Device& device : devices_) {
      while (device.done[kWeight] < microbatches_) put(device, kWeight);
    }
  }

  /// The longest time of a device between its first op's start and its last one's end.
  std::int64_t span() const {
    std::int64_t longest = 0;
    for (const Device& device : devices_) {
      const std::int64_t start = device.ends[kForward].front() - device.times[kForward];
      longest = std::max(longest, device.now - start);
    }
    return longest;
  }

  Schedule schedule(const ScheduleRequest& request) const {
    Words words;
    for (const Device& device : devices_) words.push_back(device.order);
    return schedule_of(request, words);
  }

 private:
  enum Kind : std::uint8_t { kForward, kInput, kWeight };  // as Letter
  struct Device : OrderProblem::Device {
    std::int64_t now = 0, held = 0;
    std::int64_t bubble = 0;  // idle time since the first forward
    std::array<std::int32_t, kLetters> done{};
    std::array<std::vector<std::int64_t>, 2> ends{};  // of the forwards and of the input gradients
    Word order{};
    bool can_weigh() const { return done[kWeight] < done[kInput]; }
  };

  /// When the input of the next op of `kind` is there.
  std::int64_t arrival(std::size_t j, Kind kind) const {
    const std::size_t from = kind == kForward ? j - 1 : j + 1;  // beyond the last: none
    if (from >= devices_.size()) return 0;
    return devices_[from].ends[kind][static_cast<std::size_t>(devices_[j].done[kind])] +
           devices_[std::min(j, from)].to_next;
  }

  void put(Device& device, Kind kind, std::int64_t arrival = 0) {
    const std::int64_t start = std::max(device.now, arrival);
    if (device.done[kForward] > 0) device.bubble += start - device.now;
    most_bubble_ = std::max(most_bubble_, device.bubble);
    device.now = start + device.times[kind];
    if (kind != kWeight) device.ends[kind].push_back(device.now);
    device.held += kind == kForward ? kActivation
                   : kind == kInput ? device.kept - kActivation
                                    : -device.kept;
    ++device.done[kind];
    device.order.push_back(static_cast<Letter>(kind));
  }
  void put(std::size_t j, Kind kind) { put(devices_[j], kind, arrival(j, kind)); }

  /// Forwards of the first microbatch, as many further ones as fit before its backward, and that.
  void fill() {
    const std::size_t p = devices_.size();
    for (std::size_t j = 0; j < p; ++j) put(j, kForward);
    std::vector<std::int32_t> ahead(p, 0);
    std::int64_t backward = devices_[p - 1].now + devices_[p - 1].times[kInput];
    for (std::size_t j = p - 1; j-- > 0;) {
      const Device& device = devices_[j];
      std::int64_t now = device.now, held = device.held;
      const auto fits = [&] {
        if (1 + ahead[j] >= microbatches_ || held + kActivation > cap_) return false;
        const std::int64_t arrival = backward + device.to_next;
        return policy_.waits_before_backward ? now + device.times[kForward] <= arrival
                                             : now < arrival;
      };
      while (fits()) {
        held += kActivation;
        now += device.times[kForward];
        ++ahead[j];
      }
      backward = std::max(now, backward + device.to_next) + device.times[kInput];
    }
    // Each device must be ahead of the next, until the batch ends.
    for (std::size_t j = 1; j < p; ++j) {
      const bool all = 1 + ahead[j - 1] == microbatches_;
      ahead[j] = std::min(ahead[j], std::max(ahead[j - 1] - (all ? 0 : 1), 0));
    }
    for (std::size_t j = 0; j < p; ++j) {
      for (std::int32_t i = 0; i < ahead[j]; ++i) put(j, kForward);
    }
    for (std::size_t j = p; j-- > 0;) put(j, kInput);
  }

  bool wants_forward(std::size_t j) const {
    const Device& device = devices_[j];
    if (device.done[kForward] == microbatches_) return false;
    if (!policy_.backward_first || j + 1 == devices_.size()) return true;
    const Device& next = devices_[j + 1];
    if (device.done[kForward] < next.done[kForward] + 2) return true;
    const std::int64_t needed =
        next.now + next.times[kForward] + next.times[kInput] + device.to_next;
    if (device.now >= needed) return false;
    std::int64_t end = device.now + device.times[kForward], held = device.held + kActivation;
    for (std::int32_t w = device.done[kWeight]; held > cap_ && w < device.done[kInput]; ++w) {
      end += device.times[kWeight];
      held -= device.kept;
    }
    return end <= needed || needed - device.now > most_bubble_ - device.bubble;
  }

  /// Weight gradients while the next input is awaited; the last may delay it.
  void fill_gap(Device& device, std::int64_t arrival) {
    while (device.can_weigh() && device.now + device.times[kWeight] <= arrival)
      put(device, kWeight);
    if (!device.can_weigh() || device.now >= arrival) return;
    if (policy_.fills_small_gaps || arrival - device.now > most_bubble_ - device.bubble)
      put(device, kWeight);
  }

  void go_forward() {
    std::vector<bool> wanted(devices_.size());
    for (std::size_t j = devices_.size(); j-- > 0;)
      wanted[j] = wants_forward(j) && (j + 1 == devices_.size() || wanted[j + 1]);
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      if (!wanted[j]) continue;
      Device& device = devices_[j];
      while (device.held + kActivation > cap_) {
        TANDEM_CHECK(device.can_weigh(), j, device.held, cap_);
        put(device, kWeight);
      }
      if (j > 0) fill_gap(device, arrival(j, kForward));
      put(j, kForward);
    }
  }

  void go_back() {
    for (std::size_t j = devices_.size(); j-- > 0;) {
      Device& device = devices_[j];
      if (j + 1 < devices_.size()) fill_gap(device, arrival(j, kInput));
      // Nothing waits for the first device's: what is left goes before its last backwards.
      while (j == 0 && device.done[kForward] == microbatches_ && device.can_weigh())
        put(device, kWeight);
      put(j, kInput);
    }
  }

  const ZeroBubblePolicy policy_;
  const std::int32_t microbatches_;
  const std::int64_t cap_;  // of activations
  std::vector<Device> devices_;
  std::int64_t most_bubble_ = 0;  // of any device: as much is free on all
};

}  // namespace

Schedule make_zero_bubble_auto(const ScheduleRequest& request, double cap) {
  const std::int64_t least =
      longest_work(linear_placement(request.devices), request).count();  // no span is shorter
  std::optional<ZeroBubbleTrial> best;
  for (const unsigned bits : {7u, 6u, 5u, 4u, 3u, 2u, 1u, 0u}) {
    ZeroBubbleTrial trial(request, cap,
                          {.waits_before_backward = (bits & 4u) != 0,
                           .backward_first = (bits & 2u) != 0,
                           .fills_small_gaps = (bits & 1u) != 0});
    trial.make();
    if (!best || trial.span() < best->span()) best.emplace(std::move(trial));
    if (best->span() == least) return best->schedule(request);
  }
  // Greedy orders miss some that are well known: H1 and H2.
  Schedule order = best->schedule(request);
  Duration span(best->span());
  const double p = request.devices, m = request.microbatches;
  for (const std::int32_t slope : {1, 2}) {
    if (std::min(slope * (p - 1) + 1, m) > cap) continue;  // activations that it holds
    Schedule handcrafted = make_zero_bubble(request, slope);
    const Duration its_span = span_of(handcrafted, request);
    if (its_span >= span) continue;
    order = std::move(handcrafted);
    span = its_span;
  }
  return order;
}

}  // namespace tandem
