#pragma once
// An order under construction, in time: what every device has done so far, and until when.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/schedules/search/order_problem.h"

namespace tandem {

class PartialOrder {
 public:
  /// Nothing done. `problem` must outlive it.
  explicit PartialOrder(const OrderProblem& problem)
      : problem_(&problem),
        devices_(problem.devices.size()),
        forwards_(devices_.size() * static_cast<std::size_t>(problem.microbatches)),
        gradients_(forwards_),
        left_(kLetters * forwards_.size()) {
    // What the first device's forwards and the last one's gradients need is on the device.
    devices_.front().forwards = problem.microbatches;
    devices_.back().gradients = problem.microbatches;
  }

  struct Device {
    std::array<std::int32_t, kLetters> done{};
    std::int64_t now = 0;
    std::int32_t forwards = 0, gradients = 0;  // that have been sent here
    std::int64_t last_forward = 0, last_gradient = 0;
  };
  const Device& operator[](std::size_t device) const { return devices_[device]; }
  std::size_t devices() const { return devices_.size(); }

  /// When the next op of a kind would start; empty: what it needs has not been ordered yet.
  std::optional<std::int64_t> start(std::size_t device, std::size_t kind) const {
    const Device& one = devices_[device];
    std::array<std::int32_t, kLetters> done = one.done;
    if (kind == 0) {
      if (done[0] == one.forwards) return std::nullopt;
      ++done[0];
      if (problem_->held(device, done) > problem_->devices[device].cap) return std::nullopt;
      return std::max(one.now, forward_arrival(device, done[0] - 1));
    }
    if (done[kind] == done[kind - 1]) return std::nullopt;
    if (kind == 2) return one.now;
    if (done[1] == one.gradients) return std::nullopt;
    return std::max(one.now, gradient_arrival(device, done[1]));
  }
  void put(std::size_t device, std::size_t kind) {
    Device& one = devices_[device];
    one.now = *start(device, kind) + problem_->devices[device].times[kind];
    ++one.done[kind];
    --left_;
    if (kind == 0 && device + 1 < devices_.size()) {
      Device& next = devices_[device + 1];
      const std::int64_t free =
          problem_->shared_links ? std::max(one.now, next.last_forward) : one.now;
      next.last_forward = free + problem_->devices[device].to_next;
      forwards_[cell(device + 1, next.forwards++)] = next.last_forward;
    }
    if (kind == 1 && device > 0) {
      Device& next = devices_[device - 1];
      const std::int64_t free =
          problem_->shared_links ? std::max(one.now, next.last_gradient) : one.now;
      next.last_gradient = free + problem_->devices[device - 1].to_next;
      gradients_[cell(device - 1, next.gradients++)] = next.last_gradient;
    }
  }

  /// REQUIRES: it has been sent.
  std::int64_t forward_arrival(std::size_t device, std::int32_t k) const {
    return forwards_[cell(device, k)];
  }
  std::int64_t gradient_arrival(std::size_t device, std::int32_t k) const {
    return gradients_[cell(device, k)];
  }

  /// One of these that are the next ops in time order: an optimal order has one of them next.
  struct Step {
    std::uint16_t device = 0;
    std::uint8_t kind = 0;
  };
  void choices(std::vector<Step>& steps) const {
    steps.clear();
    std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
    Step first;
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      for (std::size_t kind = 0; kind < kLetters; ++kind) {
        const std::optional<std::int64_t> at = start(j, kind);
        if (!at || *at + problem_->devices[j].times[kind] >= first_end) continue;
        first_end = *at + problem_->devices[j].times[kind];
        first = {static_cast<std::uint16_t>(j), static_cast<std::uint8_t>(kind)};
      }
    }
    if (first_end == std::numeric_limits<std::int64_t>::max()) return;
    for (std::uint8_t kind = 0; kind < kLetters; ++kind) {
      const std::optional<std::int64_t> at = start(first.device, kind);
      if (kind == first.kind || (at && *at < first_end)) steps.push_back({first.device, kind});
    }
  }

  bool done() const { return left_ == 0; }
  /// Of a complete order. The updates included.
  std::int64_t makespan() const {
    std::int64_t end = 0;
    for (std::size_t j = 0; j < devices_.size(); ++j)
      end = std::max(end, devices_[j].now + problem_->devices[j].after);
    return end;
  }

 private:
  std::size_t cell(std::size_t device, std::int32_t k) const {
    return device * static_cast<std::size_t>(problem_->microbatches) + static_cast<std::size_t>(k);
  }

  const OrderProblem* problem_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> forwards_, gradients_;  // arrivals, by device and microbatch
  std::size_t left_;
};

}  // namespace tandem
