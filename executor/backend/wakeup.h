#pragma once
// Wakeup: wakes a device's thread.

#include <atomic>
#include <cstdint>

#include "core/base/units.h"

namespace tandem {

/// Rung by whoever may have made something ready.
class Wakeup {
 public:
  void ring() {
    rings_.fetch_add(1, std::memory_order_release);
    rings_.notify_one();
  }
  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  /// Returns when the bell has been rung since rings() gave `seen`; goes to sleep for it after
  /// `spin`.
  void wait_beyond(std::uint32_t seen, Duration spin = {}) const;

 private:
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace tandem
