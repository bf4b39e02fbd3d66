#pragma once
// Meeting: where the devices of a collective bring their gradients. The last to arrive sums them in
// rank order, so the result does not depend on who came when.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/units.h"

namespace tandem {

/// One round at a time: nobody brings to the next before all are through with this one.
template <class T>
class Meeting {
 public:
  explicit Meeting(std::size_t participants) : participants_(participants) {}

  /// The last participant's call sums, then all of them find done(round). Returns whether it
  /// summed. `now` is asked before and after the sum.
  template <class Kernels, class Now>
  bool arrive(std::size_t rank, std::span<T> gradients, std::int64_t round, Kernels& kernels,
              Now now) {
    const std::lock_guard lock(mutex_);
    brought_.push_back({rank, gradients});
    if (brought_.size() < participants_) return false;
    start_ = now();
    std::sort(brought_.begin(), brought_.end(),
              [](const Brought& a, const Brought& b) { return a.rank < b.rank; });
    const std::span<T> sum = brought_.front().gradients;
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.add(sum, brought_[i].gradients, sum);
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.copy(sum, brought_[i].gradients);
    brought_.clear();
    end_ = now();
    done_.store(round, std::memory_order_release);
    return true;
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

  /// When the last sum was made. REQUIRES: done(), and the caller brings to every round.
  Duration start() const { return start_; }
  Duration end() const { return end_; }

 private:
  struct Brought {
    std::size_t rank;
    std::span<T> gradients;
  };
  std::size_t participants_;
  std::mutex mutex_;
  std::vector<Brought> brought_;
  Duration start_{}, end_{};
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
