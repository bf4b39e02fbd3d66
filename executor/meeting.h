#pragma once
// Meeting: where the devices of a collective bring their gradients. The last to arrive sums them in
// stage order, so the result does not depend on who came when.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/units.h"

namespace tandem {

template <class T>
class Meeting {
 public:
  explicit Meeting(std::size_t participants) : participants_(participants) {}

  /// Round `round` of `stage`. The last participant's call sums, then all of them find done(round).
  /// Returns whether it summed.
  template <class Kernels>
  bool arrive(StageId stage, std::span<T> gradients, std::int64_t round, Kernels kernels) {
    const std::lock_guard lock(mutex_);
    brought_.push_back({stage, gradients});
    if (brought_.size() < participants_) return false;
    std::sort(brought_.begin(), brought_.end(),
              [](const auto& a, const auto& b) { return a.stage < b.stage; });
    const std::span<T> sum = brought_.front().gradients;
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.add(sum, brought_[i].gradients, sum);
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.copy(sum, brought_[i].gradients);
    brought_.clear();
    done_.store(round, std::memory_order_release);
    return true;
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

 private:
  struct Brought {
    StageId stage;
    std::span<T> gradients;
  };
  std::size_t participants_;
  std::mutex mutex_;
  std::vector<Brought> brought_;
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
