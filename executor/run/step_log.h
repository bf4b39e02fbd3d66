#pragma once
// StepLog: losses and gradient norms of a run, brought by whichever devices make them, step by
// step.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/base/units.h"

namespace tandem {

/// A batch whose losses are known and whose last updates are made on all stages.
struct StepReport {
  std::int64_t batch = 0;
  double loss = 0.0;           // mean over its tokens
  double gradient_norm = 0.0;  // of all gradients of its last updates, before clipping
  bool skipped = false;        // they were not finite, and the weights were kept
  bool rolled_back = false;  // the stages had stepped otherwise before they knew, and did it again
  // When the devices had made the last of its losses, and of all: the host may hear of it later.
  std::chrono::steady_clock::time_point losses_at{}, at{};
  Duration since_start{}, losses_since_start{};  // pauses apart
  Duration computed{};  // of that, what a device has spent in kernels; the mean over them
};

/// What an update that stays came to.
struct UpdateSeen {
  std::span<const double> squares;  // sums, of the gradients of a stage's tensors
  bool skipped = false, rolled_back = false;
  std::chrono::steady_clock::time_point at{};
};

/// May be used by several threads.
class StepLog {
 public:
  /// `on_step` is called once for each batch, in order, by the thread that brings the last of it.
  /// `weights`: of each slice of a microbatch in the mean, where losses are those of slices.
  /// `first`: the first batch of the run.
  StepLog(std::int64_t microbatches, std::size_t stages, std::size_t tensors,
          std::function<void(const StepReport&)> on_step, std::vector<double> weights = {1.0},
          std::int64_t first = 0)
      : microbatches_(microbatches),
        first_(first * microbatches),
        stages_(stages),
        tensors_(tensors),
        on_step_(std::move(on_step)),
        weights_(std::move(weights)) {}

  void add_loss(std::int64_t microbatch, double loss, std::chrono::steady_clock::time_point at) {
    const std::lock_guard lock(mutex_);
    const auto place = static_cast<std::size_t>(microbatch - first_);
    if (losses_.size() <= place) losses_.resize(place + 1);
    losses_[place] = loss;
    Pending& step = pending_[microbatch / microbatches_];
    ++step.losses;
    step.losses_at = std::max(step.losses_at, at);
    report();
  }

  /// A stage's last update of `batch`; its first tensor is the model's `first_tensor`.
  void add_update(std::int64_t batch, std::size_t first_tensor, const UpdateSeen& update) {
    const std::lock_guard lock(mutex_);
    Pending& step = pending_[batch];
    step.squares.resize(tensors_);
    std::ranges::copy(update.squares,
                      step.squares.begin() + static_cast<std::ptrdiff_t>(first_tensor));
    step.skipped = step.skipped || update.skipped;
    step.rolled_back = step.rolled_back || update.rolled_back;
    step.updated_at = std::max(step.updated_at, update.at);
    ++step.updates;
    report();
  }

  std::vector<double> take_losses() { return std::move(losses_); }

 private:
  struct Pending {
    std::int64_t losses = 0;
    std::chrono::steady_clock::time_point losses_at{}, updated_at{};
    std::size_t updates = 0;
    std::vector<double> squares;
    bool skipped = false, rolled_back = false;
  };

  void report() {
    while (!pending_.empty()) {
      const auto& [batch, step] = *pending_.begin();
      if (step.losses < microbatches_ || step.updates < stages_) return;
      if (on_step_) {
        double sum = 0.0;
        for (const double square : step.squares) sum += square;
        on_step_({.batch = batch,
                  .loss = mean_loss(batch),
                  .gradient_norm = std::sqrt(sum),
                  .skipped = step.skipped,
                  .rolled_back = step.rolled_back,
                  .losses_at = step.losses_at,
                  .at = std::max(step.losses_at, step.updated_at)});
      }
      pending_.erase(pending_.begin());
    }
  }

  double mean_loss(std::int64_t batch) const {
    double sum = 0.0;
    for (std::int64_t i = batch * microbatches_; i < (batch + 1) * microbatches_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double loss = losses_[static_cast<std::size_t>(i - first_)];
      sum += weights_[at % weights_.size()] * loss / static_cast<double>(microbatches_);
    }
    return sum;
  }

  std::int64_t microbatches_, first_;
  std::size_t stages_, tensors_;
  std::function<void(const StepReport&)> on_step_;
  std::vector<double> weights_;
  std::mutex mutex_;
  std::vector<double> losses_;
  std::map<std::int64_t, Pending> pending_;
};

}  // namespace tandem
