// The choice of what computes products, and each engine against the portable one.

#include "executor/cpu/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cpu/gemm_bf16.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/onednn.h"
#include "tests/executor/numbers.h"

namespace tandem::cpu {
namespace {

using ::testing::HasSubstr;
using testing::random_numbers;

void run_portable(const Gemm<float>& g, int /*threads*/) { gemm(g); }

/// As a library that divides the inner dimension among threads: right, but with other roundings.
void run_divided(const Gemm<float>& g, int threads) {
  Gemm<float> part = g;
  for (int i = 0; i < threads; ++i) {
    const std::int64_t first = g.inner * i / threads, last = g.inner * (i + 1) / threads;
    std::vector<float> sum(static_cast<std::size_t>(g.rows * g.columns));
    part.inner = last - first;
    part.a = g.a + first * g.a_inner;
    part.b = g.b + first * g.b_inner;
    part.c = sum.data();
    part.c_row = g.columns;
    part.adds = false;
    gemm(part);
    for (std::int64_t row = 0; row < g.rows; ++row) {
      for (std::int64_t column = 0; column < g.columns; ++column) {
        float& c = g.c[row * g.c_row + column];
        c = (i > 0 || g.adds ? c : 0.0F) + sum[static_cast<std::size_t>(row * g.columns + column)];
      }
    }
  }
}

/// As a library that has another kernel for few rows.
void run_thin_differently(const Gemm<float>& g, int /*threads*/) {
  run_divided(g, g.rows < 100 ? 2 : 1);
}

TEST(Products, PortableOnesDoNotVary) { EXPECT_EQ(find_variance(run_portable), std::nullopt); }

TEST(Products, CheckFindsAnEngineThatVariesWithThreadsOrRows) {
  EXPECT_THAT(find_variance(run_divided).value_or(""), HasSubstr("by 2 thread(s) has other bits"));
  EXPECT_THAT(find_variance(run_thin_differently).value_or(""), HasSubstr("in 4 part(s)"));
}

TEST(Products, FallBackToPortableWhereTheLibraryVaries) {
  const ChosenProducts chosen = choose_products({}, run_divided);
  EXPECT_EQ(chosen.engine.name, "portable");
  EXPECT_EQ(chosen.engine.run, &gemm<float>);
  EXPECT_THAT(chosen.reason, HasSubstr("vary on this machine"));
  EXPECT_THROW(choose_products({.engine = "onednn"}, run_divided), AbsentError);
  EXPECT_THROW(choose_products({.engine = "onednn", .precision = Precision::bf16}, run_divided),
               AbsentError);
  EXPECT_EQ(choose_products({}, run_portable).engine.name, "onednn");
}

TEST(Products, AreAsAskedFor) {
  EXPECT_EQ(choose_products({.engine = "portable"}, run_portable).engine.name, "portable");
  EXPECT_EQ(choose_products({}, nullptr).engine.name, "portable");
  EXPECT_THROW(choose_products({.engine = "onednn"}, nullptr), AbsentError);
  EXPECT_THROW(choose_products({.engine = "mkl"}, run_portable), UsageError);
}

TEST(Products, OfBfloat16ArePortableUnlessTheProcessorHasTiles) {
  const ProductRequest any{.precision = Precision::bf16};
  const ProductRequest own{.engine = "portable", .precision = Precision::bf16};
  if (!has_bf16_instructions()) {
    EXPECT_THROW(choose_products(any, nullptr), AbsentError);
    EXPECT_THROW(choose_products(own, nullptr), AbsentError);
    return;
  }
  EXPECT_EQ(choose_products(own, nullptr).engine.run, &gemm_bf16);
  EXPECT_EQ(choose_products(any, run_portable).engine.name,
            has_bf16_tiles() ? "onednn" : "portable");
}

/// Largest difference from the portable product, relative to the largest element.
double distance_from_portable(const Gemm<float>& shape, bool left_turned, bool right_turned,
                              bool adds, bool with_bias, ProductRun run) {
  const auto a = random_numbers<float>(shape.rows * shape.inner, 1);
  const auto b = random_numbers<float>(shape.inner * shape.columns, 2);
  const auto bias = random_numbers<float>(shape.columns, 3);
  std::vector<float> expected = random_numbers<float>(shape.rows * shape.columns, 4), c = expected;
  Gemm<float> g = shape;
  g.a = a.data();
  g.a_row = left_turned ? 1 : g.inner;
  g.a_inner = left_turned ? g.rows : 1;
  g.b = b.data();
  g.b_inner = right_turned ? 1 : g.columns;
  g.b_column = right_turned ? g.inner : 1;
  g.c_row = g.columns;
  g.adds = adds;
  g.bias = with_bias ? bias.data() : nullptr;
  g.c = expected.data();
  gemm(g);
  g.c = c.data();
  run(g, 1);
  double largest = 0.0, difference = 0.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    const double here = std::abs(static_cast<double>(c[i]) - static_cast<double>(expected[i]));
    if (!(here <= difference)) difference = here;  // NaN too
  }
  return difference / largest;
}

void expect_agreement(ProductRun run, double tolerance, double at_least) {
  double worst = 0.0;
  for (const auto& [rows, inner, columns] :
       {std::array<std::int64_t, 3>{64, 48, 96}, {256, 128, 384}, {7, 5, 9}, {1, 33, 17}}) {
    const Gemm<float> shape{.rows = rows, .inner = inner, .columns = columns};
    for (const auto& [left, right, adds, bias] : {std::array<bool, 4>{false, false, false, false},
                                                  {false, false, false, true},
                                                  {false, true, false, false},
                                                  {true, false, true, false}}) {
      const double distance = distance_from_portable(shape, left, right, adds, bias, run);
      EXPECT_LT(distance, tolerance)
          << rows << " " << inner << " " << columns << " " << left << right << adds << bias;
      worst = std::max(worst, distance);
    }
  }
  EXPECT_GE(worst, at_least);
}

TEST(OneDnn, AgreesWithPortableProducts) {
  if (onednn_f32() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  expect_agreement(onednn_f32(), 2e-6, 0.0);
}

void run_bf16(const Gemm<float>& g, int /*threads*/) { gemm_bf16(g); }

/// Those there are.
std::vector<ProductRun> bf16_engines() {
  std::vector<ProductRun> engines;
  if (has_bf16_instructions()) engines.push_back(run_bf16);
  if (onednn_bf16() != nullptr) engines.push_back(onednn_bf16());
  return engines;
}

// Eight bits of mantissa: further off than float, and no further than the roundings of factors.
TEST(Bfloat16Products, RoundTheirFactors) {
  for (const ProductRun run : bf16_engines()) expect_agreement(run, 2e-2, 1e-4);
}

TEST(Bfloat16Products, OfShortNumbersAreExact) {
  const std::vector<float> a{1, 2, 3, -4, 0.5F, 6}, b{1, -1, 0.25F, 2, 3, 4};
  for (const ProductRun run : bf16_engines()) {
    std::vector<float> c(4, 10.0F);
    run(Gemm<float>{.rows = 2,
                    .inner = 3,
                    .columns = 2,
                    .a = a.data(),
                    .a_row = 3,
                    .b = b.data(),
                    .b_inner = 2,
                    .c = c.data(),
                    .c_row = 2},
        1);
    EXPECT_EQ(c, (std::vector<float>{20.5F, 25.0F, 24.125F, 39.0F}));
  }
}

// Short whole numbers: nothing is rounded, whatever the blocks.
TEST(Bfloat16Products, OfPortableKernelsAreExactAcrossBlocksAndEdges) {
  if (!has_bf16_instructions()) GTEST_SKIP() << why_no_bf16();
  const auto whole = [](std::int64_t count, std::uint64_t key) {
    std::vector<float> values = random_numbers<float>(count, key);
    for (float& value : values) value = std::trunc(4.0F * value);
    return values;
  };
  const std::int64_t rows = 139, inner = 1029, columns = 801;
  const std::vector<float> a = whole(rows * inner, 1), b = whole(inner * columns, 2);
  for (const auto& [a_turned, b_turned] : {std::array<bool, 2>{}, {false, true}, {true, false}}) {
    Gemm<float> g{.rows = rows,
                  .inner = inner,
                  .columns = columns,
                  .a = a.data(),
                  .a_row = a_turned ? 1 : inner,
                  .a_inner = a_turned ? rows : 1,
                  .b = b.data(),
                  .b_inner = b_turned ? 1 : columns,
                  .b_column = b_turned ? inner : 1,
                  .c_row = columns};
    std::vector<float> expected(static_cast<std::size_t>(rows * columns), 3.0F), c = expected;
    g.c = expected.data();
    gemm(g);
    g.c = c.data();
    gemm_bf16(g);
    EXPECT_EQ(c, expected) << a_turned << b_turned;
  }
}

TEST(Bfloat16Products, OfPortableKernelsDoNotVary) {
  if (!has_bf16_instructions()) GTEST_SKIP() << why_no_bf16();
  EXPECT_EQ(find_variance(run_bf16), std::nullopt);
}

TEST(Products, OfTheProcessAreThoseSetLast) {
  const ChosenProducts before = products();
  set_products({.engine = "portable"});
  EXPECT_EQ(products().engine.name, "portable");
  EXPECT_EQ(float_product(), &gemm<float>);
  set_products({.engine = before.engine.name, .precision = before.engine.precision});
  EXPECT_EQ(float_product(), before.engine.run);
  EXPECT_EQ(product_precision(), before.engine.precision);
}

TEST(Products, OfGpusRoundWhateverThisProcessorCan) {
  const Precision before = product_precision();
  const ChosenProducts chosen = products();
  set_product_precision(Precision::bf16);
  EXPECT_EQ(product_precision(), Precision::bf16);
  EXPECT_EQ(products().engine.precision, chosen.engine.precision);
  set_product_precision(before);
}

}  // namespace
}  // namespace tandem::cpu
