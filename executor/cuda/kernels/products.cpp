#include "executor/cuda/kernels/products.h"

#include <fmt/format.h>

#include "core/error.h"

namespace tandem::cuda {
namespace {

template <class A>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<Bf16> = CUDA_R_16BF;

/// The largest power of two that an address is a multiple of, as far as algorithms care.
std::uintptr_t alignment_of(const void* address) {
  constexpr std::uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | kMost;
  return bits & (~bits + 1);
}

cublasOperation_t operation_of(const ColumnMajor& factor) {
  return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

void Products::check(cublasStatus_t status, const char* call) const {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("{}: {}", call, library_.status_name(status)));
  }
}

Products::Products(std::span<std::byte> workspace)
    : library_(cublaslt()), handle_(nullptr, library_.destroy), workspace_(workspace) {
  cublasLtHandle_t handle = nullptr;
  check(library_.create(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

Products::Owned<cublasLtMatrixLayoutOpaque_t> Products::make_layout(const ColumnMajor& matrix,
                                                                    cudaDataType_t type) const {
  cublasLtMatrixLayout_t layout = nullptr;
  check(library_.create_layout(&layout, type, static_cast<std::uint64_t>(matrix.rows),
                               static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutCreate");
  return {layout, library_.destroy_layout};
}

void Products::set_bias(const Plan& plan, const float* bias) const {
  check(library_.set_of_operation(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                  sizeof bias),
        "cublasLtMatmulDescSetAttribute(bias)");
}

Products::Plan Products::make_plan(const Key& key, const float* bias) const {
  cublasLtMatmulDesc_t operation = nullptr;
  check(library_.create_operation(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Plan plan{.operation = {operation, library_.destroy_operation},
            .left = make_layout(key.layout.left, key.factors),
            .right = make_layout(key.layout.right, key.factors),
            .result = make_layout(key.layout.result, CUDA_R_32F)};
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value, const char* call) {
    check(library_.set_of_operation(operation, attribute, &value, sizeof value), call);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation_of(key.layout.left),
      "cublasLtMatmulDescSetAttribute(left factor)");
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation_of(key.layout.right),
      "cublasLtMatmulDescSetAttribute(right factor)");
  if (key.has_bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS,
        "cublasLtMatmulDescSetAttribute(epilogue)");
    set_bias(plan, bias);
  }
  plan.algorithm = choose_algorithm(key, plan);
  return plan;
}

/// The one that the library expects to be the fastest. Who times several asks for as many here.
cublasLtMatmulAlgo_t Products::choose_algorithm(const Key& key, const Plan& plan) const {
  cublasLtMatmulPreference_t created = nullptr;
  check(library_.create_preference(&created), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(created, library_.destroy_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(library_.set_of_preference(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_.size()));
  // Parts of a sum meet in the workspace, in float, in a fixed order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.left_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.right_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.result_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.result_alignment));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  check(library_.find_algorithms(handle_.get(), plan.operation.get(), plan.left.get(),
                                 plan.right.get(), plan.result.get(), plan.result.get(),
                                 preference.get(), 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) {
    throw DeviceError(fmt::format(
        "cublasLt has no algorithm for a product of {} x {} x {}", key.layout.result.columns,
        key.layout.right.transposed ? key.layout.right.columns : key.layout.right.rows,
        key.layout.result.rows));
  }
  return found.algo;
}

template <class A>
void Products::multiply(cudaStream_t stream, const ProductSpans<A, float>& product) {
  const Key key{.layout = layout_of(product),
                .factors = kType<A>,
                .adds = product.adds,
                .has_bias = product.bias != nullptr,
                .left_alignment = alignment_of(product.b),
                .right_alignment = alignment_of(product.a),
                .result_alignment = alignment_of(product.c)};
  auto place = plans_.find(key);
  if (place == plans_.end()) place = plans_.emplace(key, make_plan(key, product.bias)).first;
  const Plan& plan = place->second;
  if (key.has_bias) set_bias(plan, product.bias);
  const float one = 1.0F, before = product.adds ? 1.0F : 0.0F;
  check(library_.multiply(handle_.get(), plan.operation.get(), &one, product.b, plan.left.get(),
                          product.a, plan.right.get(), &before, product.c, plan.result.get(),
                          product.c, plan.result.get(), &plan.algorithm, workspace_.data(),
                          workspace_.size(), stream),
        "cublasLtMatmul");
}

template void Products::multiply(cudaStream_t, const ProductSpans<float, float>&);
template void Products::multiply(cudaStream_t, const ProductSpans<Bf16, float>&);

}  // namespace tandem::cuda
