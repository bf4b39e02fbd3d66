#pragma once
// Evaluation: the loss of given weights on given data. Forward only, stage after stage on the
// calling thread, with memory of its own: what trains meanwhile is not touched.

#include <cstdint>
#include <span>
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
             std::int32_t microbatch_size, const Data& data);

  const std::vector<Stage<K>>& stages() const { return stages_; }

  /// Mean over microbatches [first, first + count) of the mean loss over their tokens, each bit for
  /// bit what training reports for the same weights and microbatch. `weights`: of each stage.
  /// REQUIRES: count ≥ 1 (checked).
  double loss(std::span<const std::span<const T>> weights, std::int64_t first, std::int64_t count);

 private:
  double loss_of(std::span<const std::span<const T>> weights, std::int64_t microbatch);

  std::vector<Stage<K>> stages_;
  const Data& data_;
  K kernels_;
  Sample<T> sample_;
  std::vector<T> stash_, input_, output_;
};

}  // namespace tandem
