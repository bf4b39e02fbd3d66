#include "executor/run/watchdog.h"

#include <algorithm>
#include <numeric>

namespace tandem {

void Watchdog::watch(const std::stop_token& stop) {
  std::int64_t seen = -1;
  Clock::time_point last_change = Clock::now();
  while (sleep(stop, std::clamp<Duration>(limit() / 8, std::chrono::milliseconds(1),
                                          std::chrono::seconds(1)))) {
    const std::int64_t ended = std::accumulate(
        setup_.devices.begin(), setup_.devices.end(), std::int64_t{0},
        [](std::int64_t sum, const Progress* device) { return sum + device->ended(); });
    const Clock::time_point now = Clock::now();
    if (ended != seen) {
      seen = ended;
      last_change = now;
    }
    if (now - last_change < limit()) continue;
    setup_.on_stall(culprit(), now - last_change);
    if (sleep(stop, setup_.grace)) setup_.on_stuck();
    return;
  }
}

bool Watchdog::sleep(const std::stop_token& stop, Duration time) {
  std::unique_lock lock(mutex_);
  over_.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

Duration Watchdog::limit() const {
  Duration longest{};
  for (const Progress* device : setup_.devices) longest = std::max(longest, device->longest());
  return std::max(setup_.limit, 20 * longest);
}

const Progress* Watchdog::culprit() const {
  const Progress* found = nullptr;
  for (const Progress* device : setup_.devices) {
    if (device->working() && (found == nullptr || device->since() < found->since())) found = device;
  }
  return found;
}

}  // namespace tandem
