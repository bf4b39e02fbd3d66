// The inside of a gated MLP: silu(gate) · up, gate and up side by side in a row.

#include "core/base/check.h"
#include "executor/backend/strided_products.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {
namespace {

template <class A, class>
using GatedGemm = Gemm<A>;

template <class T>
TANDEM_LOOPS inline T logistic(T x) {
  return T{1} / (T{1} + exponential(-x));
}

/// In the rows' second halves dy is, where the gradient of up will be.
template <class T>
void gated_gradients(RowShape shape, std::span<const T> gate_up, std::span<T> gradient) {
  on_widest_vectors([=]() TANDEM_LOOPS {
    const auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
      const T *gate = gate_up.data() + row * 2 * width, *up = gate + width;
      T *dgate = gradient.data() + row * 2 * width, *dup = dgate + width;
      TANDEM_INDEPENDENT_TURNS
      for (std::size_t i = 0; i < width; ++i) {
        const T open = logistic(gate[i]), dy = dup[i];
        const T slope = open * fused(gate[i], T{1} - open, T{1});
        dgate[i] = dy * up[i] * slope;
        dup[i] = dy * (gate[i] * open);
      }
    }
  });
}

}  // namespace

template <class T>
void Kernels<T>::swiglu(RowShape shape, In gate_up, Out y) const {
  check_size(gate_up, 2 * shape.rows * shape.width);
  check_size(y, shape.rows * shape.width);
  on_widest_vectors([=]() TANDEM_LOOPS {
    const auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
      const T *gate = gate_up.data() + row * 2 * width, *up = gate + width;
      T* to = y.data() + row * width;
      for (std::size_t i = 0; i < width; ++i) to[i] = gate[i] * logistic(gate[i]) * up[i];
    }
  });
}

template <class T>
void Kernels<T>::matmul_transposed_swiglu_backward(MatmulShape shape, In x, In w, In gate_up,
                                                   Out gradient) const {
  const std::int64_t size = shape.rows * shape.columns;
  check_sizes(2 * size, gate_up, In(gradient));
  if (size == 0) return;
  // dy goes to where the gradient of up will be.
  const Out ups =
      gradient.subspan(static_cast<std::size_t>(shape.columns), static_cast<std::size_t>(size));
  Gemm<T> product = matmul_transposed_product<GatedGemm>(shape, x, w, ups);
  product.c_row = 2 * shape.columns;
  product_(product);
  gated_gradients<T>({.rows = shape.rows, .width = shape.columns}, gate_up, gradient);
}

template void Kernels<float>::swiglu(RowShape, In, Out) const;
template void Kernels<double>::swiglu(RowShape, In, Out) const;
template void Kernels<float>::matmul_transposed_swiglu_backward(MatmulShape, In, In, In, Out) const;
template void Kernels<double>::matmul_transposed_swiglu_backward(MatmulShape, In, In, In,
                                                                 Out) const;

}  // namespace tandem::cpu
