#pragma once
// An order under construction, in time: what every device has done so far, and until when.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/schedules/search/sent_results.h"

namespace tandem {

class PartialOrder {
 public:
  /// Nothing done. `problem` must outlive it.
  explicit PartialOrder(const OrderProblem& problem)
      : problem_(&problem),
        devices_(problem.devices.size()),
        sent_(problem),
        left_(kLetters * devices_.size() * static_cast<std::size_t>(problem.microbatches)) {}

  struct Device {
    std::array<std::int32_t, kLetters> done{};
    std::int64_t now = 0;
  };
  const Device& operator[](std::size_t device) const { return devices_[device]; }
  std::size_t devices() const { return devices_.size(); }
  const SentResults& sent() const { return sent_; }

  /// When the next op of a kind would start; empty: what it needs has not been ordered yet.
  std::optional<std::int64_t> start(std::size_t device, std::size_t kind) const {
    const Device& one = devices_[device];
    if (kind > 0 && one.done[kind] == one.done[kind - 1]) return std::nullopt;
    if (kind == 2) return one.now;
    if (one.done[kind] == sent_.count(device, kind)) return std::nullopt;
    std::array<std::int32_t, kLetters> done = one.done;
    ++done[kind];
    if (kind == 0 && problem_->held(device, done) > problem_->devices[device].cap)
      return std::nullopt;
    return std::max(one.now, sent_.arrival(device, kind, one.done[kind]));
  }
  void put(std::size_t device, std::size_t kind) {
    Device& one = devices_[device];
    one.now = *start(device, kind) + problem_->devices[device].times[kind];
    ++one.done[kind];
    --left_;
    sent_.send(device, kind, one.now);
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
  const OrderProblem* problem_;
  std::vector<Device> devices_;
  SentResults sent_;
  std::size_t left_;
};

}  // namespace tandem
