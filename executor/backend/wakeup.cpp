#include "executor/backend/wakeup.h"

#include <chrono>
#include <thread>

namespace tandem {

void Wakeup::wait_beyond(std::uint32_t seen, Duration spin) const {
  if (spin > Duration::zero()) {
    const auto end = std::chrono::steady_clock::now() + spin;
    while (std::chrono::steady_clock::now() < end) {
      if (wakes() != seen) return;
      std::this_thread::yield();  // others may have more use for the core
    }
  }
  wakes_.wait(seen, std::memory_order_acquire);
}

}  // namespace tandem
