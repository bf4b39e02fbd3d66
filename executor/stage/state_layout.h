#pragma once
// Where the numbers of an optimizer's state lie: all first moments, then all second ones, then all
// steps before, where their delay is corrected; each in the order of the weights. Matrices of
// Muon's have no second ones.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/model/model.h"
#include "executor/backend/kernels.h"
#include "executor/layers/layer.h"

namespace tandem {

/// Of some weights; empty: none.
struct StateRanges {
  ElementRange first, second, last_step;
};

class StateLayout {
 public:
  /// REQUIRES: the offsets of the tensors are set, and begin with 0.
  StateLayout(Optimizer optimizer, std::span<const Tensor> tensors)
      : parameters_(total_size(tensors)),
        corrects_(optimizer.correction != DelayCorrection::none),
        moments_(optimizer_states(optimizer) - (corrects_ ? 1 : 0)),
        muon_(optimizer.kind == OptimizerKind::muon) {
    std::int64_t before = 0;
    for (const Tensor& tensor : tensors) {
      if (!muon_ || !tensor.hidden) continue;
      before += tensor.size();
      hidden_.push_back({tensor.offset, before});
    }
    seconds_ = moments_ > 1 ? parameters_ - before : 0;
  }

  /// All numbers.
  std::int64_t size() const {
    return seconds_ + (moments_ > 0 ? parameters_ : 0) + (corrects_ ? parameters_ : 0);
  }

  /// Of the weights in `range`, which begins with the tensor, and goes on to the next hidden matrix
  /// at most; of such a matrix alone where it is one.
  StateRanges of(const ElementRange& range, const Tensor& tensor) const {
    StateRanges state;
    if (moments_ > 0) state.first = range;
    if (moments_ > 1 && !(muon_ && tensor.hidden)) {
      const std::int64_t skipped = hidden_before(range.first);
      state.second = {parameters_ + range.first - skipped, parameters_ + range.last - skipped};
    }
    if (corrects_) {
      const std::int64_t behind = size() - parameters_;
      state.last_step = {behind + range.first, behind + range.last};
    }
    return state;
  }

 private:
  /// A matrix of Muon's, and the elements of all up to its end.
  struct Hidden {
    std::int64_t offset, elements;
  };
  std::int64_t hidden_before(std::int64_t offset) const {
    std::int64_t elements = 0;
    for (const Hidden& each : hidden_) {
      if (each.offset < offset) elements = each.elements;
    }
    return elements;
  }

  std::int64_t parameters_;
  bool corrects_;
  std::int32_t moments_;
  bool muon_;
  std::vector<Hidden> hidden_;
  std::int64_t seconds_ = 0;
};

/// A tensor whose spans are of nothing else.
inline Tensor by_itself(Tensor tensor) {
  tensor.offset = 0;
  return tensor;
}

/// Numbers of an optimizer's state for a tensor.
inline std::int64_t state_size(Optimizer optimizer, const Tensor& tensor) {
  const Tensor alone = by_itself(tensor);
  return StateLayout(optimizer, std::span(&alone, 1)).size();
}

}  // namespace tandem
