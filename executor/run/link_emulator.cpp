#include "executor/run/link_emulator.h"

#include <utility>

#include "core/base/check.h"
#include "core/program/cost.h"

namespace tandem {

LinkEmulator::LinkEmulator(double bytes_per_second)
    : bytes_per_second_(bytes_per_second),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  TANDEM_CHECK(bytes_per_second > 0.0, bytes_per_second);
}

Duration LinkEmulator::time_of(Bytes bytes) const {
  return transmission_time(bytes, bytes_per_second_);
}

void LinkEmulator::deliver(Time when, std::function<void()> land) {
  {
    const std::lock_guard lock(mutex_);
    parcels_.push({when, sent_++, std::move(land)});
  }
  changed_.notify_one();
}

void LinkEmulator::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (parcels_.empty()) {
      changed_.wait(lock, stop, [this] { return !parcels_.empty(); });
      continue;
    }
    const Time next = parcels_.top().when;
    if (std::chrono::steady_clock::now() < next) {
      changed_.wait_until(lock, stop, next, [this, next] { return parcels_.top().when < next; });
      continue;
    }
    const std::function<void()> land = parcels_.top().land;
    parcels_.pop();
    lock.unlock();
    land();
    lock.lock();
  }
}

}  // namespace tandem
