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

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cpu/kernels.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {
namespace {

using Attributes = std::map<int, std::vector<std::byte>>;

template <class T>
T value_of(const Attributes& attributes, int name, T otherwise) {
  const auto place = attributes.find(name);
  if (place == attributes.end()) return otherwise;
  T value;
  EXPECT_EQ(place->second.size(), sizeof value);
  std::memcpy(&value, place->second.data(), sizeof value);
  return value;
}

struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, leading;
};

/// Of the library that the test at hand plays with.
struct FakeState {
  std::set<int> epilogues;  // that there are algorithms for
  int asked = 0, multiplied = 0;
  std::vector<int> takes{100};  // how long each of its algorithms takes; below 0: it can't run
  std::uint64_t algorithm = 0;  // of the last product
  std::size_t version = 130002;
};
FakeState fake;

template <class T>
T* make(T value) {
  return new T(std::move(value));
}

float load(const void* memory, cudaDataType type, std::int64_t i) {
  return type == CUDA_R_16BF ? to_float(static_cast<const Bf16*>(memory)[i])
                             : static_cast<const float*>(memory)[i];
}
void store(void* memory, cudaDataType type, std::int64_t i, double value) {
  const auto number = static_cast<float>(value);
  if (type == CUDA_R_16BF) {
    static_cast<Bf16*>(memory)[i] = narrow<Bf16>(number);
  } else {
    static_cast<float*>(memory)[i] = number;
  }
}

const Layout& layout_from(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<const Layout*>(layout);
}

struct Epilogue {
  int kind;
  void *bias, *aux;
  std::int64_t aux_leading;
};

double gelu_of(double x, bool slope) {
  const cpu::Kernels<double> kernels;
  double result = 0.0, one = 1.0;
  const std::span<const double> in(&x, 1);
  if (slope) {
    kernels.gelu_backward(in, std::span<const double>(&one, 1), std::span(&result, 1));
  } else {
    kernels.gelu(in, std::span(&result, 1));
  }
  return result;
}

double apply(const Epilogue& epilogue, cudaDataType type, std::int64_t i, std::int64_t j,
             double sum) {
  const std::int64_t aux = i + j * epilogue.aux_leading;
  if ((epilogue.kind & CUBLASLT_EPILOGUE_BIAS) != 0)
    sum += static_cast<double>(load(epilogue.bias, type, i));
  if ((epilogue.kind & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU)
    return sum * gelu_of(static_cast<double>(load(epilogue.aux, type, aux)), true);
  if ((epilogue.kind & CUBLASLT_EPILOGUE_GELU_AUX) != CUBLASLT_EPILOGUE_GELU_AUX) return sum;
  store(epilogue.aux, type, aux, sum);
  return gelu_of(sum, false);
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*,
                        const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                        cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                        cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t, cudaStream_t) {
  ++fake.multiplied;
  fake.algorithm = algorithm->data[0];
  if (fake.takes.at(fake.algorithm) < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& attributes = *reinterpret_cast<const Attributes*>(operation);
  const Layout &left = layout_from(a_layout), &right = layout_from(b_layout),
               &result = layout_from(d_layout);
  const Epilogue epilogue{
      value_of(attributes, CUBLASLT_MATMUL_DESC_EPILOGUE, int{CUBLASLT_EPILOGUE_DEFAULT}),
      value_of<void*>(attributes, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr),
      value_of<void*>(attributes, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr),
      value_of(attributes, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{0})};
  const auto op = [&](int name) { return value_of(attributes, name, int{CUBLAS_OP_N}); };
  const bool a_turned = op(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T,
             b_turned = op(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const auto of_a = [&](std::int64_t i, std::int64_t k) {
    return static_cast<double>(
        load(a, left.type, a_turned ? k + i * left.leading : i + k * left.leading));
  };
  const std::int64_t inner = a_turned ? left.rows : left.columns;
  for (std::int64_t i = 0; i < result.rows; ++i) {
    double row_sum = 0.0;
    for (std::int64_t k = 0; k < inner; ++k) row_sum += of_a(i, k);
    if (epilogue.kind == CUBLASLT_EPILOGUE_BGRADA) store(epilogue.bias, result.type, i, row_sum);
    for (std::int64_t j = 0; j < result.columns; ++j) {
      const std::int64_t at = i + j * result.leading;
      double sum = 0.0;
      if (*static_cast<const float*>(beta) == 1.0F)
        sum += static_cast<double>(load(d, result.type, at));
      for (std::int64_t k = 0; k < inner; ++k) {
        const std::int64_t from = b_turned ? j + k * right.leading : k + j * right.leading;
        sum += of_a(i, k) * static_cast<double>(load(b, right.type, from));
      }
      store(d, result.type, at, apply(epilogue, result.type, i, j, sum));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t find(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t,
                    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                    cublasLtMatmulPreference_t, int most, cublasLtMatmulHeuristicResult_t* found,
                    int* count) {
  ++fake.asked;
  const int epilogue = value_of(*reinterpret_cast<const Attributes*>(operation),
                                CUBLASLT_MATMUL_DESC_EPILOGUE, int{CUBLASLT_EPILOGUE_DEFAULT});
  *count = 0;
  if (!fake.epilogues.contains(epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(most, static_cast<int>(fake.takes.size()));
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

CublasLt make_fake() {
  CublasLt library;
  library.status_name = [](cublasStatus_t) -> const char* { return "?"; };
  library.create = [](cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(make(0));
    return CUBLAS_STATUS_SUCCESS;
  };
  library.destroy = [](cublasLtHandle_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.create_operation = [](cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
    *made = reinterpret_cast<cublasLtMatmulDesc_t>(make(Attributes{}));
    return CUBLAS_STATUS_SUCCESS;
  };
  library.destroy_operation = [](cublasLtMatmulDesc_t operation) {
    delete reinterpret_cast<Attributes*>(operation);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.set_of_operation = [](cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name,
                                const void* value, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(value);
    (*reinterpret_cast<Attributes*>(operation))[name] = {first, first + size};
    return CUBLAS_STATUS_SUCCESS;
  };
  library.create_layout = [](cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                             std::uint64_t columns, std::int64_t leading) {
    *made = reinterpret_cast<cublasLtMatrixLayout_t>(make(Layout{
        type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading}));
    return CUBLAS_STATUS_SUCCESS;
  };
  library.destroy_layout = [](cublasLtMatrixLayout_t layout) {
    delete reinterpret_cast<Layout*>(layout);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.create_preference = [](cublasLtMatmulPreference_t* made) {
    *made = reinterpret_cast<cublasLtMatmulPreference_t>(make(0));
    return CUBLAS_STATUS_SUCCESS;
  };
  library.destroy_preference = [](cublasLtMatmulPreference_t preference) {
    delete reinterpret_cast<int*>(preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.set_of_preference = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                 const void*, std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  library.find_algorithms = find;
  library.check_algorithm = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm,
                               cublasLtMatmulHeuristicResult_t*) {
    return algorithm->data[0] < fake.takes.size() ? CUBLAS_STATUS_SUCCESS
                                                  : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  library.version = [] { return fake.version; };
  library.multiply = multiply;
  return library;
}

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
