#pragma once
// The products that kernels offer as products of strided matrices. `P` is a backend's: what it
// multiplies, stored as A, and what it makes, stored as C, in members of the names below.

#include <span>

#include "executor/backend/kernels.h"

namespace tandem {

/// y = x·w + bias; `bias` may be empty.
template <template <class, class> class P, class A, class C>
P<A, C> matmul_product(MatmulShape shape, std::span<const A> x, std::span<const A> w,
                       std::span<const C> bias, std::span<C> y) {
  check_size(x, shape.rows * shape.inner);
  check_size(w, shape.inner * shape.columns);
  check_size(y, shape.rows * shape.columns);
  if (!bias.empty()) check_size(bias, shape.columns);
  return {.rows = shape.rows,
          .inner = shape.inner,
          .columns = shape.columns,
          .a = x.data(),
          .a_row = shape.inner,
          .b = w.data(),
          .b_inner = shape.columns,
          .c = y.data(),
          .adds = false,
          .bias = bias.empty() ? nullptr : bias.data()};
}

/// y = x·wᵀ.
template <template <class, class> class P, class A, class C>
P<A, C> matmul_transposed_product(MatmulShape shape, std::span<const A> x, std::span<const A> w,
                                  std::span<C> y) {
  P<A, C> product = matmul_product<P>(shape, x, w, std::span<const C>(), y);
  product.b_inner = 1;
  product.b_column = shape.inner;
  return product;
}

/// dw += xᵀ·dy: the contracted dimension is `rows`.
template <template <class, class> class P, class A, class C>
P<A, C> accumulated_product(MatmulShape shape, std::span<const A> x, std::span<const A> dy,
                            std::span<C> dw) {
  const MatmulShape turned{.rows = shape.inner, .inner = shape.rows, .columns = shape.columns};
  P<A, C> product = matmul_product<P>(turned, x, dy, std::span<const C>(), dw);
  product.a_row = 1;
  product.a_inner = shape.inner;
  product.adds = true;
  return product;
}

}  // namespace tandem
