#pragma once
// Evaluation: the loss of given weights on given data. Forward only, stage after stage on the
// calling thread, with memory of its own: what trains meanwhile is not touched.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "executor/data/data.h"
#include "executor/stage/stage.h"

namespace tandem {

template <Kernels K>
class Evaluation {
 public:
  using T = typename K::Scalar;

  /// `stages` cover the model, in order. `data` is for this model and microbatch size, and outlives
  /// this.
  Evaluation(const ModelSpec& model, std::span<const LayerRange> stages,
             std::int32_t microbatch_size, const Data& data)
      : data_(data) {
    std::int64_t stash = 0;
    for (const LayerRange layers : stages) {
      stages_.emplace_back(model, layers, microbatch_size, 1.0);
      stash = std::max(stash, stages_.back().sizes().stash);
    }
    TANDEM_CHECK(stages_.front().is_first() && stages_.back().is_last(), stages.size());
    stash_.resize(static_cast<std::size_t>(stash));
    input_.resize(static_cast<std::size_t>(stages_.front().sizes().boundary));
    output_.resize(input_.size());
  }

  const std::vector<Stage<K>>& stages() const { return stages_; }

  /// Mean over microbatches [first, first + count) of the mean loss over their tokens, each bit for
  /// bit what training reports for the same weights and microbatch. `weights`: of each stage.
  /// REQUIRES: count ≥ 1 (checked).
  double loss(std::span<const std::span<const T>> weights, std::int64_t first, std::int64_t count) {
    TANDEM_CHECK(weights.size() == stages_.size() && count >= 1, weights.size(), count);
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += loss_of(weights, first + i);
    return sum / static_cast<double>(count);
  }

 private:
  double loss_of(std::span<const std::span<const T>> weights, std::int64_t microbatch) {
    data_.fill(microbatch, sample_);
    double loss = 0.0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Stage<K>& stage = stages_[i];
      const auto stash = static_cast<std::size_t>(stage.sizes().stash);
      stage.forward(kernels_,
                    {.weights = weights[i],
                     .input = stage.is_first() ? std::span<const T>{} : std::span<const T>(input_),
                     .sample = &sample_,
                     .stash = std::span(stash_).first(stash),
                     .output = stage.is_last() ? std::span<T>{} : std::span<T>(output_),
                     .loss = &loss});
      std::swap(input_, output_);
    }
    return loss;
  }

  std::vector<Stage<K>> stages_;
  const Data& data_;
  K kernels_;
  Sample<T> sample_;
  std::vector<T> stash_, input_, output_;
};

}  // namespace tandem
