#pragma once
// Collective: where the devices of a collective bring their gradients. The last to arrive sums them
// in rank order, so the result does not depend on who came when.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace tandem {

/// One round at a time: nobody brings to the next before all are through with this one.
template <class B>
class Collective {
 public:
  using W = typename B::Kernels::Wide;
  using Stream = typename B::Stream;

  explicit Collective(std::size_t participants) : fences_(participants) {}

  /// In a task. The last participant's call sums, then all of them find done(round), and go on
  /// behind the sum when their stream has followed it. Returns whether it summed.
  bool arrive(std::size_t rank, std::span<W> gradients, std::int64_t round, B& backend,
              Stream& stream) {
    const std::lock_guard lock(mutex_);
    backend.raise(stream, fences_[brought_.size()]);
    brought_.push_back({rank, gradients});
    if (brought_.size() < fences_.size()) return false;
    for (typename B::Fence& fence : fences_) backend.follow(stream, fence);
    start_ = backend.mark(stream);
    std::sort(brought_.begin(), brought_.end(),
              [](const Brought& a, const Brought& b) { return a.rank < b.rank; });
    auto kernels = backend.kernels(stream);
    const std::span<W> sum = brought_.front().gradients;
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.add(sum, brought_[i].gradients, sum);
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.copy(sum, brought_[i].gradients);
    brought_.clear();
    end_ = backend.mark(stream);
    backend.raise(stream, summed_);
    done_.store(round, std::memory_order_release);
    return true;
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

  // REQUIRES: done(), and the caller brings to every round.
  void follow(B& backend, Stream& stream) { backend.follow(stream, summed_); }
  /// When the last sum was made.
  const typename B::Mark& start() const { return start_; }
  const typename B::Mark& end() const { return end_; }

 private:
  struct Brought {
    std::size_t rank;
    std::span<W> gradients;
  };
  std::mutex mutex_;
  std::vector<typename B::Fence> fences_;  // a participant each, as they come
  std::vector<Brought> brought_;
  typename B::Mark start_{}, end_{};
  typename B::Fence summed_;
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
