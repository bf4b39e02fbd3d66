#pragma once
// ½·Σ(y − expected)². Forward writes it divided by the microbatch's rows and leaves its scaled
// gradient in the stash.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class SquaredError {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit SquaredError(const LayerShape& shape) : shape_(shape) {}

  std::vector<Tensor> tensors(std::int32_t /*block*/) const { return {}; }
  std::int64_t stash_size() const { return room<T, W>(shape_.boundary()); }
  std::int64_t inner_size() const { return 0; }
  std::int64_t scratch_size() const { return 0; }
  std::int64_t context_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    kernels.squared_error({.rows = shape_.rows(), .width = shape_.model.width}, spans.input,
                          spans.sample.expected, shape_.loss_scale, cut_gradient(spans.stash),
                          spans.loss);
  }

  void recompute(K&, const BackwardSpans<T, W>&) const {}

  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    if (!spans.input_gradient.empty())
      kernels.copy(cut_gradient(spans.stash), spans.input_gradient);
  }

  void backward_weight(K&, const BackwardSpans<T, W>&) const {}

 private:
  template <class U>
  std::span<U> cut_gradient(std::span<U> stash) const {
    return Carver<U, W>(stash).take_part(shape_.boundary());
  }

  LayerShape shape_;
};

}  // namespace tandem
