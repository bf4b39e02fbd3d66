#pragma once
// y = x·W, no bias: of dyadic numbers, exact in floating point while they fit the mantissa.

#include "executor/layers/layer.h"

namespace tandem {

template <Kernels K>
class Linear {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;
  explicit Linear(const LayerShape& shape) : shape_(shape) {}

  std::vector<Tensor> tensors(std::int32_t block) const {
    const std::int64_t d = shape_.model.width;
    return {{.name = fmt::format("linear{}.weight", block),
             .shape = {d, d},
             .decayed = true,
             .initial = Initial::dyadic}};
  }
  std::int64_t stash_size() const { return 0; }
  std::int64_t inner_size() const { return 0; }
  std::int64_t scratch_size() const { return 0; }
  std::int64_t context_size() const { return 0; }

  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    if (spans.output.empty()) return;
    kernels.matmul(square(), spans.input, spans.weights, {}, spans.output);
  }

  void recompute(K&, const BackwardSpans<T, W>&) const {}

  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    if (spans.input_gradient.empty()) return;
    kernels.matmul_transposed(square(), spans.output_gradient, spans.weights, spans.input_gradient);
  }

  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    kernels.accumulate_product(square(), spans.input, spans.output_gradient, spans.gradients);
  }

 private:
  MatmulShape square() const {
    return {.rows = shape_.rows(), .inner = shape_.model.width, .columns = shape_.model.width};
  }

  LayerShape shape_;
};

}  // namespace tandem
