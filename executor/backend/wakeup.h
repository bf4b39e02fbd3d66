#pragma once
// Wakeup: wakes a device's thread.

#include <atomic>
#include <cstdint>

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
  void wait_beyond(std::uint32_t seen, Duration spin = {}) const;

 private:
  std::atomic<std::uint32_t> wakes_{0};
};

}  // namespace tandem
