#pragma once
// Wakeup: wakes a device's thread.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/base/units.h"

namespace tandem {

/// Woken by whoever may have made something ready.
class Wakeup {
 public:
  void wake() {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_one();
  }
  std::uint32_t wakes() const { return wakes_.load(std::memory_order_acquire); }
  /// Returns when there was a wake() since wakes() gave `seen`; goes to sleep for it after `spin`.
  void wait_beyond(std::uint32_t seen, Duration spin = {}) const {
    if (spin > Duration::zero()) {
      const auto end = std::chrono::steady_clock::now() + spin;
      while (std::chrono::steady_clock::now() < end) {
        if (wakes() != seen) return;
        std::this_thread::yield();  // others may have more use for the core
      }
    }
    wakes_.wait(seen, std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint32_t> wakes_{0};
};

}  // namespace tandem
