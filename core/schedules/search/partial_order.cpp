#include "core/schedules/search/partial_order.h"

#include <algorithm>
#include <limits>

namespace tandem {

PartialOrder::PartialOrder(const OrderProblem& problem)
    : problem_(&problem),
      devices_(problem.devices.size()),
      forwards_(devices_.size() * static_cast<std::size_t>(problem.microbatches)),
      gradients_(forwards_),
      left_(kLetters * forwards_.size()) {
  // What the first device's forwards and the last one's gradients need is on the device.
  devices_.front().forwards = problem.microbatches;
  devices_.back().gradients = problem.microbatches;
}

std::optional<std::int64_t> PartialOrder::start(std::size_t device, std::size_t kind) const {
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

void PartialOrder::put(std::size_t device, std::size_t kind) {
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

void PartialOrder::choices(std::vector<Step>& steps) const {
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

std::int64_t PartialOrder::makespan() const {
  std::int64_t end = 0;
  for (std::size_t j = 0; j < devices_.size(); ++j)
    end = std::max(end, devices_[j].now + problem_->devices[j].after);
  return end;
}

}  // namespace tandem
