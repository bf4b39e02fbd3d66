#include "simulator/contention/slowed_compute.h"

#include <algorithm>

namespace tandem {

SlowedCompute::SlowedCompute(const std::vector<double>& slowdowns) {
  for (const double slowdown : slowdowns) devices_.push_back({.slowdown = slowdown});
}

void SlowedCompute::change(std::size_t device, std::int32_t movements) {
  Device& of = devices_[device];
  of.movements += movements;
  if (of.changed) return;
  of.changed = true;
  changed_.push_back(static_cast<std::uint32_t>(device));
}

void SlowedCompute::begin(std::size_t device, std::uint32_t op, std::int64_t work,
                          std::int64_t now) {
  Device& of = devices_[device];
  of.runs = true;
  of.op = op;
  of.left = static_cast<double>(work);
  of.at = now;
  of.pace = 0.0;
  change(device, 0);
}

void SlowedCompute::settle(std::int64_t now) {
  for (const std::uint32_t device : changed_) {
    Device& of = devices_[device];
    of.changed = false;
    const double pace = of.movements > 0 ? of.slowdown : 1.0;
    if (!of.runs || pace == of.pace) continue;
    if (of.pace > 0.0) of.left -= static_cast<double>(now - of.at) / of.pace;
    of.at = now;
    of.pace = pace;
    ends_.push({after(now, std::max(0.0, of.left) * pace), device, ++of.stamp});
  }
  changed_.clear();
}

std::int64_t SlowedCompute::next_end() {
  while (!ends_.empty() && ends_.top().stamp != devices_[ends_.top().subject].stamp) ends_.pop();
  return ends_.empty() ? kNever : ends_.top().time;
}

std::uint32_t SlowedCompute::end() {
  Device& of = devices_[ends_.top().subject];
  ends_.pop();
  ++of.stamp;
  of.runs = false;
  return of.op;
}

}  // namespace tandem
