// Row-major products in the words of a column-major library: a library of that kind, written as its
// manual says, must make what the plain kernel makes.

#include "executor/cuda/kernels/product_layout.h"

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Element (i, j) of a factor.
double element(const ColumnMajor& matrix, const float* values, std::int64_t i, std::int64_t j) {
  const std::int64_t row = matrix.transposed ? j : i, column = matrix.transposed ? i : j;
  EXPECT_TRUE(row < matrix.rows && column < matrix.columns && matrix.leading >= matrix.rows);
  return static_cast<double>(values[row + column * matrix.leading]);
}

/// result = left · right, plus a bias for each row of it, plus what is there.
void multiply_column_major(const ProductSpans<float, float>& p) {
  const ProductLayout layout = layout_of(p);
  const ColumnMajor &left = layout.left, &result = layout.result;
  const std::int64_t inner = left.transposed ? left.rows : left.columns;
  EXPECT_EQ(inner, p.inner);
  for (std::int64_t i = 0; i < result.rows; ++i) {
    for (std::int64_t j = 0; j < result.columns; ++j) {
      float& c = p.c[i + j * result.leading];
      double sum = p.adds ? static_cast<double>(c) : 0.0;
      if (p.bias != nullptr) sum += static_cast<double>(p.bias[i]);
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += element(left, p.b, i, k) * element(layout.right, p.a, k, j);
      }
      c = static_cast<float>(sum);
    }
  }
}

TEST(ProductLayout, IsThatOfTheThreeProducts) {
  const cpu::Kernels<double> oracle;
  for (const MatmulShape shape :
       {MatmulShape{1, 1, 1}, {1, 7, 1}, {5, 1, 3}, {3, 4, 1}, {6, 5, 7}}) {
    const auto x = random_numbers<float>(shape.rows * shape.inner, 1),
               w = random_numbers<float>(shape.inner * shape.columns, 2),
               bias = random_numbers<float>(shape.columns, 3),
               dy = random_numbers<float>(shape.rows * shape.columns, 4);
    std::vector<float> y(dy.size()), z(dy.size()), dw(w.size(), 1.0F);
    multiply_column_major(matmul_product<ProductSpans>(shape, std::span(x), std::span(w),
                                                       std::span(bias), std::span(y)));
    multiply_column_major(
        matmul_transposed_product<ProductSpans>(shape, std::span(x), std::span(w), std::span(z)));
    multiply_column_major(
        accumulated_product<ProductSpans>(shape, std::span(x), std::span(dy), std::span(dw)));
    std::vector<double> y0(y.size()), z0(y.size()), dw0(at(shape.inner * shape.columns), 1.0);
    oracle.matmul(shape, widen(x), widen(w), widen(bias), y0);
    oracle.matmul_transposed(shape, widen(x), widen(w), z0);
    oracle.accumulate_product(shape, widen(x), widen(dy), dw0);
    EXPECT_LT(relative_error(y, y0), 1e-6);
    EXPECT_LT(relative_error(z, z0), 1e-6);
    EXPECT_LT(relative_error(dw, dw0), 1e-6);
  }
}

TEST(ProductLayout, OfTheOtherFactorsIsAnother) {
  const std::vector<float> x(6), w(12);
  std::vector<float> y(8);
  const MatmulShape shape{.rows = 2, .inner = 3, .columns = 4};
  const auto plain = layout_of(matmul_product<ProductSpans>(
      shape, std::span(x), std::span(w), std::span<const float>(), std::span(y)));
  const auto transposed = layout_of(
      matmul_transposed_product<ProductSpans>(shape, std::span(x), std::span(w), std::span(y)));
  EXPECT_NE(plain, transposed);
  EXPECT_EQ(plain.right, transposed.right);
}

}  // namespace
}  // namespace tandem::cuda::testing
