#pragma once
// ½·Σ(y − expected)². Forward writes it divided by the microbatch's rows and leaves its scaled
// gradient in the stash.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class SquaredError {
 public:
  using T = typename K::Scalar;
  explicit SquaredError(const LayerShape& shape) : shape_(shape) {}

  std::vector<Tensor> tensors(std::int32_t /*block*/) const { return {}; }
  std::int64_t stash_size() const { return shape_.boundary(); }
  std::int64_t scratch_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T>& spans) const {
    kernels.squared_error(shape_.norm(), spans.input, spans.sample.expected, shape_.loss_scale,
                          spans.stash, spans.loss);
  }

  void recompute(K&, const BackwardSpans<T>&) const {}

  void backward_input(K& kernels, const BackwardSpans<T>& spans) const {
    if (!spans.input_gradient.empty()) kernels.copy(spans.stash, spans.input_gradient);
  }

  void backward_weight(K&, const BackwardSpans<T>&) const {}

 private:
  LayerShape shape_;
};

}  // namespace tandem
