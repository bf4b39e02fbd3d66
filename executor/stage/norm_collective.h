#pragma once
// NormCollective: where the stages of a pipeline bring the sums of squares of their gradients. The
// last to arrive decides for all of them. On a GPU the decision is made, and read by the steps of
// all stages, without the host, which learns it later.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "executor/backend/backend.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/optimizer.h"

namespace tandem {

/// What an update's gradients came to: numbers that kernels write and read, and beside them what
/// the host sees of them. Steps read the decision often: so it is not in the host's memory.
struct UpdateNorm {
  std::size_t tensors = 0;
  std::shared_ptr<double[]> squares, seen_squares;  // of each tensor
  std::shared_ptr<UpdateDecision[]> decision, seen_decision;
  std::atomic<bool> is_known{false};  // the decision has been made, so that any host may see it

  template <Backend B>
  UpdateNorm(B& backend, std::size_t tensors_of)
      : tensors(tensors_of),
        squares(backend.template kernel_numbers<double>(tensors_of)),
        seen_squares(backend.template results<double>(tensors_of)),
        decision(backend.template kernel_numbers<UpdateDecision>(1)),
        seen_decision(backend.template results<UpdateDecision>(1)) {}

  /// Behind the kernels that made the squares. `before`: of the update before; null: none.
  template <Kernels K>
  void decide(K& kernels, const DecideNumbers& numbers, const UpdateNorm* before) {
    kernels.decide(std::span<const double>(squares.get(), tensors), numbers,
                   before == nullptr ? nullptr : before->decision.get(), decision.get(),
                   {seen_squares.get(), seen_decision.get()});
  }
  /// For kernels to write.
  std::span<double> squares_of(std::size_t first, std::size_t count) {
    return std::span(squares.get(), tensors).subspan(first, count);
  }
  // For the host, once the decision has been made.
  const UpdateDecision& seen() const { return seen_decision[0]; }
  std::span<const double> all_seen() const { return {seen_squares.get(), tensors}; }
};

inline DecideNumbers decide_numbers(const GradientGuard& guard, const OptimizerConfig& optimizer) {
  DecideNumbers numbers = moment_numbers(optimizer);
  numbers.clips = guard.clip != ClipScope::none;
  numbers.most_norm = guard.most_norm;
  return numbers;
}

/// One round at a time: nobody brings to the next before all are through with this one.
template <class B>
class NormCollective {
 public:
  using Stream = typename B::Stream;

  /// `tensors`: of the whole model.
  NormCollective(const DecideNumbers& numbers, std::size_t stages, std::size_t tensors)
      : numbers_(numbers), tensors_(tensors), fences_(stages) {}

  /// The round's norm, for a stage to write its squares to.
  std::shared_ptr<UpdateNorm> enter(B& backend) {
    const std::lock_guard lock(mutex_);
    if (!next_) next_ = std::make_shared<UpdateNorm>(backend, tensors_);
    return next_;
  }

  /// In a task. Whether this was the last stage: its call decides, and all find done(round), and
  /// go on behind the decision when their stream has followed it.
  bool arrive(std::int64_t round, B& backend, Stream& stream) {
    const std::lock_guard lock(mutex_);
    backend.raise(stream, fences_[arrived_]);
    if (++arrived_ < fences_.size()) return false;
    arrived_ = 0;
    for (typename B::Fence& fence : fences_) backend.follow(stream, fence);
    const std::shared_ptr<UpdateNorm> before = std::exchange(norm_, std::exchange(next_, nullptr));
    auto kernels = backend.kernels(stream);
    norm_->decide(kernels, numbers_, before.get());
    backend.when_done(stream, [before] {});  // until then it is read
    decided_ = backend.mark(stream);
    backend.raise(stream, decision_);
    done_.store(round, std::memory_order_release);
    return true;
  }
  bool done(std::int64_t round) const { return done_.load(std::memory_order_acquire) >= round; }

  // REQUIRES: done(), and the caller brings to every round.
  void follow(B& backend, Stream& stream) { backend.follow(stream, decision_); }
  const std::shared_ptr<UpdateNorm>& norm() const { return norm_; }
  const typename B::Mark& decided() const { return decided_; }

 private:
  DecideNumbers numbers_;
  std::size_t tensors_, arrived_ = 0;
  std::mutex mutex_;
  std::vector<typename B::Fence> fences_;    // a stage each, as they come
  std::shared_ptr<UpdateNorm> norm_, next_;  // decided last; where squares are being brought
  typename B::Mark decided_{};
  typename B::Fence decision_;
  std::atomic<std::int64_t> done_{-1};
};

}  // namespace tandem
