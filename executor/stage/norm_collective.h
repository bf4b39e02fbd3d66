#pragma once
// NormCollective: where the stages of a pipeline bring the sums of squares of their gradients. The
// first to find them all there decides for all of them. On a GPU the decision is made, and read by
// the steps of all stages, without the host, which learns it later.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  /// Fills in, of all squares, those that others bring, and calls once they are there. Squares lie
  /// in memory that the host reads, and those that nobody here brings are zero.
  using Exchange = std::function<void(std::span<double> squares, std::function<void()> ended)>;

  /// `stages`: those here. `tensors`: of the whole model. `exchange`: empty where all stages are
  /// here.
  NormCollective(const DecideNumbers& numbers, std::size_t stages, std::size_t tensors,
                 Exchange exchange = {})
      : numbers_(numbers), tensors_(tensors), fences_(stages), exchange_(std::move(exchange)) {}

  /// The round's norm, for a stage to write its squares to.
  std::shared_ptr<UpdateNorm> enter(B& backend) {
    const std::lock_guard lock(mutex_);
    if (next_) return next_;
    next_ = std::make_shared<UpdateNorm>(backend, tensors_);
    if (exchange_) std::ranges::fill(next_->squares_of(0, tensors_), 0.0);
    return next_;
  }

  /// In a task. When all stages have arrived all of them find complete(round); `on_complete` is
  /// called then, by whichever thread.
  template <class Call>
  void arrive(std::int64_t round, B& backend, Stream& stream, const Call& on_complete) {
    const std::lock_guard lock(mutex_);
    backend.raise(stream, fences_[arrived_]);
    if (++arrived_ < fences_.size()) return;
    arrived_ = 0;
    const auto complete = [this, round, on_complete] {
      complete_.store(round, std::memory_order_release);
      on_complete();
    };
    if (!exchange_) return complete();
    // On a GPU squares are there once the streams have come there.
    for (typename B::Fence& fence : fences_) backend.follow(stream, fence);
    backend.when_done(stream,
                      [this, complete] { exchange_(next_->squares_of(0, tensors_), complete); });
  }
  bool complete(std::int64_t round) const {
    return complete_.load(std::memory_order_acquire) >= round;
  }

  /// In a task of a stage's. The first one decides, for all of them: returns the norm that it has
  /// decided on, and to the others null. All go on behind the decision. REQUIRES: complete(), and
  /// the caller brings to every round.
  std::shared_ptr<UpdateNorm> decide(std::int64_t round, B& backend, Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (decided_round_ >= round) {
      backend.follow(stream, decision_);
      return nullptr;
    }
    decided_round_ = round;
    for (typename B::Fence& fence : fences_) backend.follow(stream, fence);
    const std::shared_ptr<UpdateNorm> before = std::exchange(norm_, std::exchange(next_, nullptr));
    auto kernels = backend.kernels(stream);
    norm_->decide(kernels, numbers_, before.get());
    backend.when_done(stream, [before] {});  // until then it is read
    decided_ = backend.mark(stream);
    backend.raise(stream, decision_);
    return norm_;
  }
  /// REQUIRES: decide() has been called for the round.
  const std::shared_ptr<UpdateNorm>& norm() const { return norm_; }
  const typename B::Mark& decided() const { return decided_; }

 private:
  DecideNumbers numbers_;
  std::size_t tensors_, arrived_ = 0;
  std::int64_t decided_round_ = -1;
  std::mutex mutex_;
  std::vector<typename B::Fence> fences_;  // a stage each, as they come
  const Exchange exchange_;
  std::shared_ptr<UpdateNorm> norm_, next_;  // decided last; where squares are being brought
  typename B::Mark decided_{};
  typename B::Fence decision_;
  std::atomic<std::int64_t> complete_{-1};
};

}  // namespace tandem
