#pragma once
// A cublasLt that computes on the CPU what its descriptors say, as the manual has it. It has
// algorithms for some epilogues or for none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/cublaslt.h"

namespace tandem::cuda::testing::cublaslt_fake {

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

template <class T>
T* make(T value) {
  return new T(std::move(value));
}

inline float load(const void* memory, cudaDataType type, std::int64_t i) {
  return type == CUDA_R_16BF ? to_float(static_cast<const Bf16*>(memory)[i])
                             : static_cast<const float*>(memory)[i];
}
inline void store(void* memory, cudaDataType type, std::int64_t i, double value) {
  const auto number = static_cast<float>(value);
  if (type == CUDA_R_16BF) {
    static_cast<Bf16*>(memory)[i] = narrow<Bf16>(number);
  } else {
    static_cast<float*>(memory)[i] = number;
  }
}

inline const Layout& layout_from(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<const Layout*>(layout);
}

struct Epilogue {
  int kind;
  void *bias, *aux;
  std::int64_t aux_leading;
};

inline double gelu_of(double x, bool slope) {
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

inline double apply(const Epilogue& epilogue, cudaDataType type, std::int64_t i, std::int64_t j,
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

/// A product as it was asked for.
struct FakeProduct {
  Attributes attributes;
  Layout left, right, result;
  const void *a, *b;
  void* d;
  bool adds;
  void compute() const;
};

/// Of the library that the test at hand plays with.
struct FakeState {
  std::set<int> epilogues;  // that there are algorithms for
  int asked = 0, multiplied = 0;
  /// That products told of: when their algorithm was looked for, and when they were queued. 0: of
  /// none.
  std::set<std::int32_t> multiprocessors_asked = {}, multiprocessors_multiplied = {};
  std::vector<int> takes{100};  // how long each of its algorithms takes; below 0: it can't run
  std::uint64_t algorithm = 0;  // of the last product
  std::size_t version = 130002;
  /// Queues a product on its stream. Empty: it is computed at once.
  std::function<cublasStatus_t(cudaStream_t, FakeProduct)> queue = {};
};
inline FakeState fake;

inline void FakeProduct::compute() const {
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
      double sum = adds ? static_cast<double>(load(d, result.type, at)) : 0.0;
      for (std::int64_t k = 0; k < inner; ++k) {
        const std::int64_t from = b_turned ? j + k * right.leading : k + j * right.leading;
        sum += of_a(i, k) * static_cast<double>(load(b, right.type, from));
      }
      store(d, result.type, at, apply(epilogue, result.type, i, j, sum));
    }
  }
}

inline std::int32_t multiprocessors_of(cublasLtMatmulDesc_t operation) {
  return value_of(*reinterpret_cast<const Attributes*>(operation),
                  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{0});
}

inline cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*,
                               const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                               cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                               cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                               const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                               cudaStream_t stream) {
  ++fake.multiplied;
  fake.multiprocessors_multiplied.insert(multiprocessors_of(operation));
  fake.algorithm = algorithm->data[0];
  if (fake.takes.at(fake.algorithm) < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  FakeProduct product{*reinterpret_cast<const Attributes*>(operation),
                      layout_from(a_layout),
                      layout_from(b_layout),
                      layout_from(d_layout),
                      a,
                      b,
                      d,
                      *static_cast<const float*>(beta) == 1.0F};
  if (fake.queue) return fake.queue(stream, std::move(product));
  product.compute();
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t find(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t,
                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                           cublasLtMatmulPreference_t, int most,
                           cublasLtMatmulHeuristicResult_t* found, int* count) {
  ++fake.asked;
  fake.multiprocessors_asked.insert(multiprocessors_of(operation));
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

inline CublasLt make_fake() {
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

}  // namespace tandem::cuda::testing::cublaslt_fake
