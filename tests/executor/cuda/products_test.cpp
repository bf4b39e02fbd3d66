// What products ask of cublasLt: a library that computes on the CPU what its descriptors say, as
// the manual has it, stands in for it. It has algorithms for some epilogues or for none.

#include "executor/cuda/kernels/products.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cpu/kernels.h"
#include "tests/executor/cuda/fake_cublaslt.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {
namespace {

using cublaslt_fake::fake;
using cublaslt_fake::make_fake;

const std::set<int> kPlain{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS};
const std::set<int> kAll{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                         CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                         CUBLASLT_EPILOGUE_BGRADA};

/// As a GPU's context does it. Whether the library did the whole.
template <class A, class C>
bool multiply_whole(Products& products, CpuGrid& grid, const ProductSpans<A, C>& spans) {
  const ProductRest rest = products.multiply(nullptr, spans);
  if (rest.epilogue) finish(grid, spans);
  if (!rest.column_sums.empty()) {
    const std::span<float> sums(spans.column_sums, rest.column_sums.size());
    add(grid, rest.column_sums, std::span<const float>(sums), sums);
  }
  return !rest.epilogue;
}

struct alignas(256) Workspace {
  std::byte bytes[1 << 16];
};

/// The three products with more made along the way, into what `C` is; whether all were fused.
template <class A, class C>
bool are_fused_and_right(Products& products, MatmulShape shape) {
  CpuGrid grid(Order::ascending);
  const cpu::Kernels<double> oracle;
  const std::int64_t size = shape.rows * shape.columns;
  const auto x = numbers_of<A>(shape.rows * shape.inner, 1, 0.3),
             w = numbers_of<A>(shape.inner * shape.columns, 2, 0.3), dy = numbers_of<A>(size, 6);
  const auto bias = numbers_of<C>(shape.columns, 3), before = numbers_of<C>(size, 4);
  std::vector<C> read(before.size()), y(before.size()), dx(before.size());
  auto dw = random_numbers<float>(shape.inner * shape.columns, 5),
       db = random_numbers<float>(shape.columns, 7);
  std::vector<double> read0(y.size()), y0(y.size()), dx0(y.size()), dw0 = widen(dw),
                                                                    db0 = widen(db);
  oracle.matmul_gelu(shape, widen(x), widen(w), widen(bias), read0, y0);
  oracle.matmul_transposed_gelu_backward(shape, widen(x), widen(w), widen(before), dx0);
  oracle.accumulate_product_and_rows(shape, widen(x), widen(dy), dw0, db0);
  auto forward = matmul_product<ProductSpans>(shape, std::span(x), std::span(w), std::span(bias),
                                              std::span(y));
  forward.before_gelu = read.data();
  auto backward =
      matmul_transposed_product<ProductSpans>(shape, std::span(x), std::span(w), std::span(dx));
  backward.gelu_input = before.data();
  auto weights =
      accumulated_product<ProductSpans>(shape, std::span(x), std::span(dy), std::span(dw));
  weights.column_sums = db.data();
  const bool fused = multiply_whole(products, grid, forward);
  EXPECT_EQ(multiply_whole(products, grid, backward), fused);
  const bool sums_fused = multiply_whole(products, grid, weights);
  EXPECT_TRUE(sums_fused || !fused);
  EXPECT_LT(relative_error(read, read0), kTolerance<C>);
  EXPECT_LT(relative_error(y, y0), kTolerance<C>);
  EXPECT_LT(relative_error(dx, dx0), kTolerance<C>);
  EXPECT_LT(relative_error(dw, dw0), 1e-5);
  EXPECT_LT(relative_error(db, db0), 1e-5);
  return fused;
}

constexpr MatmulShape kShape{.rows = 6, .inner = 5, .columns = 16};

TEST(Products, AskForEpiloguesAndDoWithoutThem) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  for (const bool has_them : {true, false}) {
    fake = {.epilogues = has_them ? kAll : kPlain};
    Products products(workspace->bytes, library);
    EXPECT_EQ((are_fused_and_right<float, float>(products, kShape)), has_them);
    EXPECT_EQ((are_fused_and_right<Bf16, float>(products, kShape)), has_them);
    EXPECT_EQ((are_fused_and_right<Bf16, Bf16>(products, kShape)), has_them);
  }
}

TEST(Products, AskOnceAShape) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  for (const auto& [epilogues, asked] : {std::pair{kAll, 3}, {kPlain, 6}}) {
    fake = {.epilogues = epilogues};
    Products products(workspace->bytes, library);
    are_fused_and_right<Bf16, Bf16>(products, kShape);
    EXPECT_LE(fake.asked, asked);  // other addresses may be aligned otherwise
    std::vector<Bf16> x(30), w(80), bias(16), y(96);
    const auto spans =
        matmul_product<ProductSpans>(kShape, std::span<const Bf16>(x), std::span<const Bf16>(w),
                                     std::span<const Bf16>(bias), std::span(y));
    products.multiply(nullptr, spans);
    const int once = fake.asked;
    products.multiply(nullptr, spans);
    EXPECT_EQ(fake.asked, once);
  }
}

// The library refuses what GELU reads where rows are no multiple of eight apart.
TEST(Products, DoNotAskForGeluOfOddRows) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  fake = {.epilogues = kAll};
  Products products(workspace->bytes, library);
  EXPECT_FALSE((are_fused_and_right<float, float>(products, {6, 5, 7})));
}

TEST(Products, TellTheMultiprocessorsOfAShareAndNothingOfAWholeGpu) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  for (const int multiprocessors : {32, 0}) {
    fake = {.epilogues = kAll};
    Products products(workspace->bytes, library, nullptr, time_by_events, multiprocessors);
    EXPECT_TRUE((are_fused_and_right<Bf16, Bf16>(products, kShape)));
    EXPECT_THAT(fake.multiprocessors_asked, ::testing::ElementsAre(multiprocessors));
    EXPECT_THAT(fake.multiprocessors_multiplied, ::testing::ElementsAre(multiprocessors));
  }
}

/// Whether all of a product is left to the caller.
bool leaves_all(Products& products) {
  std::vector<float> x(30), w(80), y(96);
  const auto spans =
      matmul_product<ProductSpans>(kShape, std::span<const float>(x), std::span<const float>(w),
                                   std::span<const float>(), std::span(y));
  return products.multiply(nullptr, spans).all;
}

TEST(Products, LeaveToTheCallerWhatTheLibraryHasNoAlgorithmFor) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  fake = {};
  Products products(workspace->bytes, library);
  EXPECT_TRUE(leaves_all(products));
}

TEST(Products, AnAlgorithmThatCannotAfterAllIsAskedOnce) {
  const CublasLt library = make_fake();
  const auto workspace = std::make_unique<Workspace>();
  fake = {};
  fake.epilogues = kAll;
  fake.takes = {-1};
  Products products(workspace->bytes, library);
  EXPECT_TRUE(leaves_all(products));
  EXPECT_EQ(fake.multiplied, 1);
  EXPECT_TRUE(leaves_all(products));
  EXPECT_EQ(fake.multiplied, 1);
}

/// As long as the fake's last algorithm takes.
Duration fake_timer(cudaStream_t, const std::function<void()>& run) {
  run();
  return Duration(fake.takes[fake.algorithm]);
}

/// A product of one shape, over and over.
class OneProduct {
 public:
  void multiply(Products& products, std::int64_t columns = 16) {
    const MatmulShape shape{6, 5, columns};
    products.multiply(nullptr, matmul_product<ProductSpans>(
                                   shape, std::span<const float>(numbers_, 30),
                                   std::span<const float>(numbers_, 5 * shape.columns),
                                   std::span<const float>(), std::span(y_, 6 * shape.columns)));
  }

 private:
  alignas(256) float numbers_[80] = {};
  alignas(256) float y_[96] = {};
};

class ChosenProducts : public ::testing::Test {
 protected:
  ChosenProducts() {
    fake = {.epilogues = kPlain};
    fake.takes = {100, -1, 70, 90};
  }
  std::uint64_t algorithm_of(const std::shared_ptr<AlgorithmBook>& book) {
    Products products(workspace_->bytes, library_, book, fake_timer);
    product_.multiply(products);
    return fake.algorithm;
  }
  /// What a profile of this library would keep.
  static std::vector<ProductAlgorithm> measured(ChosenProducts& test) {
    const auto book = std::make_shared<AlgorithmBook>(std::vector<ProductAlgorithm>(), true);
    EXPECT_EQ(test.algorithm_of(book), 2u);
    return book->all();
  }

  const CublasLt library_ = make_fake();
  std::unique_ptr<Workspace> workspace_ = std::make_unique<Workspace>();
  OneProduct product_;
};

TEST_F(ChosenProducts, AreTheQuickestWhereTheyAreMeasured) {
  const std::vector<ProductAlgorithm> all = measured(*this);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].library, "cublasLt 130002");
  EXPECT_EQ(all[0].time, Duration(70));
  EXPECT_EQ(all[0].first_time, Duration(100));
  EXPECT_EQ(all[0].measured, 4);
}

TEST_F(ChosenProducts, AreThoseOfTheProfileAndTheFirstOtherwise) {
  const std::vector<ProductAlgorithm> all = measured(*this);
  EXPECT_EQ(algorithm_of(nullptr), 0u);
  EXPECT_EQ(algorithm_of(std::make_shared<AlgorithmBook>()), 0u);
  const int before = fake.multiplied;
  EXPECT_EQ(algorithm_of(std::make_shared<AlgorithmBook>(all)), 2u);
  EXPECT_EQ(fake.multiplied, before + 1);  // nothing was timed
}

TEST_F(ChosenProducts, AreMeasuredForEachShape) {
  const auto book = std::make_shared<AlgorithmBook>(std::vector<ProductAlgorithm>(), true);
  Products products(workspace_->bytes, library_, book, fake_timer);
  for (const std::int64_t columns : {16, 8, 16}) product_.multiply(products, columns);
  EXPECT_EQ(book->all().size(), 2u);
}

TEST_F(ChosenProducts, AreMeasuredForTheMultiprocessorsTheyGet) {
  const auto book = std::make_shared<AlgorithmBook>(std::vector<ProductAlgorithm>(), true);
  Products on_share(workspace_->bytes, library_, book, fake_timer, 32),
      on_other_share(workspace_->bytes, library_, book, fake_timer, 32),
      on_whole(workspace_->bytes, library_, book, fake_timer);
  for (Products* products : {&on_share, &on_other_share}) product_.multiply(*products);
  ASSERT_EQ(book->all().size(), 1u);
  EXPECT_THAT(book->all()[0].product, ::testing::EndsWith(", on 32 multiprocessors"));
  fake.takes = {100, -1, 90, 70};
  product_.multiply(on_whole);
  ASSERT_EQ(book->all().size(), 2u);
  EXPECT_NE(book->all()[0].algorithm, book->all()[1].algorithm);
  EXPECT_THAT(book->all()[0].product + ", on 32 multiprocessors",
              ::testing::Eq(book->all()[1].product));
}

TEST_F(ChosenProducts, OfAnotherLibraryOrNoneOfItsAreRefused) {
  const std::vector<ProductAlgorithm> all = measured(*this);
  const auto refusing = [&](std::vector<ProductAlgorithm> known) {
    int refused = 0;
    EXPECT_EQ(algorithm_of(std::make_shared<AlgorithmBook>(std::move(known), false,
                                                           [&](const std::string&) { ++refused; })),
              0u);
    return refused;
  };
  std::vector<ProductAlgorithm> broken = all, unknown = all;
  broken[0].algorithm = "zz";
  EXPECT_EQ(refusing(broken), 1);
  unknown[0].algorithm[1] = '9';  // there is none of that number
  EXPECT_EQ(refusing(unknown), 1);
  fake.version = 130003;
  EXPECT_EQ(refusing(all), 1);
}

}  // namespace
}  // namespace tandem::cuda::testing
