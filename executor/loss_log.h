#pragma once
// LossLog: the losses of a run, brought by whichever devices end the pipelines, batch by batch.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem {

/// May be used by several threads.
class LossLog {
 public:
  /// `on_batch` is called once for each batch, in order, with the mean over its microbatches, when
  /// the last of them is in.
  LossLog(std::int64_t batch_size, std::function<void(std::int64_t batch, double mean)> on_batch)
      : batch_size_(batch_size), on_batch_(std::move(on_batch)) {}

  void add(std::int64_t microbatch, double loss) {
    const std::lock_guard lock(mutex_);
    const auto at = static_cast<std::size_t>(microbatch);
    if (losses_.size() <= at) losses_.resize(at + 1);
    losses_[at] = loss;
    ++seen_[microbatch / batch_size_];
    while (!seen_.empty() && seen_.begin()->second == batch_size_) {
      const std::int64_t batch = seen_.begin()->first;
      seen_.erase(seen_.begin());
      if (on_batch_) on_batch_(batch, mean(batch));
    }
  }

  std::vector<double> take() { return std::move(losses_); }

 private:
  double mean(std::int64_t batch) const {
    double sum = 0.0;
    for (std::int64_t i = batch * batch_size_; i < (batch + 1) * batch_size_; ++i)
      sum += losses_[static_cast<std::size_t>(i)] / static_cast<double>(batch_size_);
    return sum;
  }

  std::int64_t batch_size_;
  std::function<void(std::int64_t, double)> on_batch_;
  std::mutex mutex_;
  std::vector<double> losses_;
  std::map<std::int64_t, std::int64_t> seen_;  // microbatches of each batch that is not whole yet
};

}  // namespace tandem
