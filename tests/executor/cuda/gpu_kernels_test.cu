// The kernels on a GPU, and its library's products against the portable kernel's.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cuda/kernels/gpu_grid.cuh"
#include "executor/cuda/kernels/products.h"
#include "tests/executor/cuda/gpu_machine.h"
#include "tests/executor/cuda/kernel_tests.h"

namespace tandem::cuda::testing {
namespace {

using Settings = ::testing::Types<Setting<GpuMachine, float>, Setting<GpuMachine, Bf16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OnGpu, CudaKernels, Settings);

/// What becomes of products, `multiply` calls one.
template <class A, class Multiply>
std::vector<std::vector<float>> products_of(GpuMachine& machine, const MatmulShape& shape,
                                            const Multiply& multiply) {
  auto x = machine.put(numbers_of<A>(shape.rows * shape.inner, 1)),
       w = machine.put(numbers_of<A>(shape.inner * shape.columns, 2)),
       dy = machine.put(numbers_of<A>(shape.rows * shape.columns, 3));
  auto bias = machine.put(random_numbers<float>(shape.columns, 4)),
       dw = machine.put(random_numbers<float>(shape.inner * shape.columns, 5));
  auto y = machine.poisoned<float>(shape.rows * shape.columns),
       z = machine.poisoned<float>(shape.rows * shape.columns),
       t = machine.poisoned<float>(shape.rows * shape.columns);
  multiply(matmul_product<ProductSpans>(shape, x.in(), w.in(), bias.in(), y.out()));
  multiply(matmul_product<ProductSpans>(shape, x.in(), w.in(), std::span<const float>{}, z.out()));
  multiply(matmul_transposed_product<ProductSpans>(shape, x.in(), w.in(), t.out()));
  multiply(accumulated_product<ProductSpans>(shape, x.in(), dy.in(), dw.out()));
  auto read = machine.poisoned<float>(shape.rows * shape.columns),
       after = machine.poisoned<float>(shape.rows * shape.columns),
       dx = machine.poisoned<float>(shape.rows * shape.columns);
  auto summed = machine.put(random_numbers<float>(shape.inner * shape.columns, 5)),
       db = machine.put(random_numbers<float>(shape.columns, 6));
  auto forward = matmul_product<ProductSpans>(shape, x.in(), w.in(), bias.in(), after.out());
  forward.before_gelu = read.out().data();
  multiply(forward);
  auto backward = matmul_transposed_product<ProductSpans>(shape, x.in(), w.in(), dx.out());
  backward.gelu_input = z.in().data();
  multiply(backward);
  auto weights = accumulated_product<ProductSpans>(shape, x.in(), dy.in(), summed.out());
  weights.column_sums = db.out().data();
  multiply(weights);
  return {machine.get(y),  machine.get(z),      machine.get(t),
          machine.get(dw), machine.get(read),   machine.get(after),
          machine.get(dx), machine.get(summed), machine.get(db)};
}

template <class A>
void expect_products_of_the_portable_kernel() {
  GpuMachine machine(1);
  GpuMemory<std::byte> workspace(std::size_t{32} << 20);
  Products library(workspace.out());
  for (const MatmulShape shape :
       {MatmulShape{1, 1, 1}, {5, 3, 7}, {64, 256, 768}, {1000, 64, 50}}) {
    const auto by_library = [&](const auto& spans) {
      const ProductRest rest = library.multiply(nullptr, spans);
      if (rest.epilogue) finish(machine.grid(), spans);
      if (rest.column_sums.empty()) return;
      const std::span<float> sums(spans.column_sums, rest.column_sums.size());
      add(machine.grid(), rest.column_sums, std::span<const float>(sums), sums);
    };
    const auto got = products_of<A>(machine, shape, by_library);
    const auto expected =
        products_of<A>(machine, shape, [&](const auto& spans) { product(machine.grid(), spans); });
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(relative_error(got[i], widen(expected[i])), 1e-5) << i;
    }
    EXPECT_EQ(got, products_of<A>(machine, shape, by_library));
  }
}

TEST(GpuProducts, AreThoseOfThePortableKernel) {
  if (const auto why = GpuMachine::why_absent()) GTEST_SKIP() << *why;
  expect_products_of_the_portable_kernel<float>();
  expect_products_of_the_portable_kernel<Bf16>();
}

}  // namespace
}  // namespace tandem::cuda::testing
