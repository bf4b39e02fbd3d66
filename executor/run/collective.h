#pragma once
// Collective: where the devices of a collective bring their gradients. They are summed in the order
// of the stages' places, so the result does not depend on who came when, or runs where.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "executor/run/other_ranks.h"

namespace tandem {

/// Members of a sum that other ranks run, too.
struct AcrossRanks {
  OtherRanks* others = nullptr;
  std::size_t communicator = 0;
  std::vector<std::int32_t> members;  // the rank of each, in the order of addition
};

/// One round at a time: nobody brings to the next before all are through with this one.
template <class B>
class Collective {
 public:
  using W = typename B::Kernels::Wide;
  using Stream = typename B::Stream;

  /// `participants`: those here.
  explicit Collective(std::size_t participants, std::optional<AcrossRanks> across = {})
      : fences_(participants), across_(std::move(across)) {}

  /// In a task. When all have arrived they are summed, and all of them find done(round), and go on
  /// behind the sum when their stream has followed it; `on_done` is called then, by whichever
  /// thread. `place`: in the order of addition.
  template <class Call>
  void arrive(std::size_t place, std::span<W> gradients, std::int64_t round, B& backend,
              Stream& stream, const Call& on_done) {
    const std::lock_guard lock(mutex_);
    backend.raise(stream, fences_[brought_.size()]);
    brought_.push_back({place, gradients});
    if (brought_.size() < fences_.size()) return;
    for (typename B::Fence& fence : fences_) backend.follow(stream, fence);
    start_ = backend.mark(stream);
    std::sort(brought_.begin(), brought_.end(),
              [](const Brought& a, const Brought& b) { return a.place < b.place; });
    if (across_) return sum_over_ranks(round, on_done);
    auto kernels = backend.kernels(stream);
    const std::span<W> sum = brought_.front().gradients;
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.add(sum, brought_[i].gradients, sum);
    for (std::size_t i = 1; i < brought_.size(); ++i) kernels.copy(sum, brought_[i].gradients);
    brought_.clear();
    end_ = backend.mark(stream);
    backend.raise(stream, summed_);
    done_.store(round, std::memory_order_release);
    on_done();
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

  // REQUIRES: done(), and the caller brings to every round.
  void follow(B& backend, Stream& stream) { backend.follow(stream, summed_); }
  /// When the last sum was made.
  const typename B::Mark& start() const { return start_; }
  const typename B::Mark& end() const { return end_; }

 private:
  template <class Call>
  void sum_over_ranks(std::int64_t round, const Call& on_done) {
    std::vector<std::span<W>> shares;
    for (const Brought& each : brought_) shares.push_back(each.gradients);
    brought_.clear();
    across_->others->sum(across_->communicator, across_->members, std::move(shares),
                         [this, round, on_done] {
                           end_ = B::Mark::at(std::chrono::steady_clock::now());
                           done_.store(round, std::memory_order_release);
                           on_done();
                         });
  }

  struct Brought {
    std::size_t place;
    std::span<W> gradients;
  };
  std::mutex mutex_;
  std::vector<typename B::Fence> fences_;  // a participant each, as they come
  const std::optional<AcrossRanks> across_;
  std::vector<Brought> brought_;
  typename B::Mark start_{}, end_{};
  typename B::Fence summed_;
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
