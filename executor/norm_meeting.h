#pragma once
// NormMeeting: where the stages of a pipeline bring the sums of squares of their gradients. The
// last to arrive decides for all of them.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/units.h"
#include "executor/gradient_guard.h"

namespace tandem {

/// One round at a time: nobody brings to the next before all are through with this one.
class NormMeeting {
 public:
  /// `tensors`: of the whole model.
  NormMeeting(const GradientGuard& guard, std::size_t stages, std::size_t tensors)
      : guard_(guard), stages_(stages), squares_(tensors) {}

  /// Whether this was the last stage: its call, at time `now`, decides, and all find done(round).
  /// `first_tensor`: which of the model's tensors the squares begin with.
  bool arrive(std::size_t first_tensor, std::span<const double> squares, std::int64_t round,
              Duration now) {
    const std::lock_guard lock(mutex_);
    std::copy(squares.begin(), squares.end(),
              squares_.begin() + static_cast<std::ptrdiff_t>(first_tensor));
    if (++arrived_ < stages_) return false;
    arrived_ = 0;
    decision_ = decide(guard_, squares_);
    decided_ = now;
    done_.store(round, std::memory_order_release);
    return true;
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

  /// REQUIRES: done(), and the caller brings to every round.
  const GuardDecision& decision() const { return decision_; }
  std::span<const double> squares() const { return squares_; }
  Duration decided() const { return decided_; }

 private:
  GradientGuard guard_;
  std::size_t stages_, arrived_ = 0;
  std::mutex mutex_;
  std::vector<double> squares_;
  GuardDecision decision_;
  Duration decided_{};
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
