#include "executor/cuda/kernels/products.h"

#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

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

template <class A, class C>
cublasLtEpilogue_t epilogue_of(const ProductSpans<A, C>& product) {
  const bool has_bias = product.bias != nullptr;
  if (product.before_gelu != nullptr)
    return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (product.gelu_input != nullptr) return CUBLASLT_EPILOGUE_DGELU;
  // B is the library's first factor.
  if (product.column_sums != nullptr) return CUBLASLT_EPILOGUE_BGRADA;
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

bool is_of_gelu(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

/// Whether finish() can do what the epilogue does.
bool can_be_left_out(cublasLtEpilogue_t epilogue) {
  return epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS;
}

/// Whether a product was not queued because the algorithm can't do it, though the library named it.
bool refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// The library asks for it of what GELU reads: cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
constexpr std::int64_t kGeluLeadingMultiple = 8;
constexpr std::uintptr_t kGeluAlignment = 16;

}  // namespace

void Products::check(cublasStatus_t status, const char* call) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(fmt::format("{}: {}", call, library_.status_name(status)));
}

Products::Products(std::span<std::byte> workspace, const CublasLt& library,
                   std::shared_ptr<AlgorithmBook> book, ProductTimer timer, int multiprocessors)
    : library_(library),
      handle_(nullptr, library_.destroy),
      workspace_(workspace),
      book_(std::move(book)),
      timer_(timer),
      multiprocessors_(multiprocessors) {
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

std::span<float> Products::sums_workspace(const Key& key) const {
  if (key.epilogue != CUBLASLT_EPILOGUE_BGRADA) return {};
  constexpr std::size_t kAligned = 256;
  const auto count = static_cast<std::size_t>(key.layout.result.rows);
  const std::size_t bytes = (count * sizeof(float) + kAligned - 1) / kAligned * kAligned;
  TANDEM_CHECK(bytes <= workspace_.size(), bytes, workspace_.size());
  return {reinterpret_cast<float*>(workspace_.last(bytes).data()), count};
}

std::span<std::byte> Products::algorithm_workspace(const Key& key) const {
  const std::span<float> sums = sums_workspace(key);
  if (sums.empty()) return workspace_;
  return {workspace_.data(), reinterpret_cast<std::byte*>(sums.data())};
}

void Products::set_memory(const Plan& plan, const EpilogueMemory& memory) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* address,
                       const char* call) {
    if (address == nullptr) return;
    check(library_.set_of_operation(plan.operation.get(), attribute, &address, sizeof address),
          call);
  };
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias, "cublasLtMatmulDescSetAttribute(bias)");
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.gelu_input,
      "cublasLtMatmulDescSetAttribute(input of GELU)");
}

std::optional<Products::Plan> Products::make_plan(const Key& key,
                                                  const EpilogueMemory& memory) const {
  if (is_of_gelu(key.epilogue) && (key.layout.result.leading % kGeluLeadingMultiple != 0 ||
                                   key.epilogue_alignment < kGeluAlignment)) {
    return std::nullopt;
  }
  cublasLtMatmulDesc_t operation = nullptr;
  check(library_.create_operation(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Plan plan{.operation = {operation, library_.destroy_operation},
            .left = make_layout(key.layout.left, key.factors),
            .right = make_layout(key.layout.right, key.factors),
            .result = make_layout(key.layout.result, key.result)};
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value, const char* call) {
    check(library_.set_of_operation(operation, attribute, &value, sizeof value), call);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation_of(key.layout.left),
      "cublasLtMatmulDescSetAttribute(left factor)");
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation_of(key.layout.right),
      "cublasLtMatmulDescSetAttribute(right factor)");
  // Else it chooses, and launches, for all that the GPU has.
  if (key.multiprocessors != 0) {
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, key.multiprocessors,
        "cublasLtMatmulDescSetAttribute(multiprocessors)");
  }
  if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue, "cublasLtMatmulDescSetAttribute(epilogue)");
    set_memory(plan, memory);
  }
  if (is_of_gelu(key.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.layout.result.leading,
        "cublasLtMatmulDescSetAttribute(leading dimension of GELU's input)");
  }
  const std::vector<Algorithm> algorithms = find_algorithms(key, plan, 1);
  if (algorithms.empty()) return std::nullopt;
  plan.algorithm = algorithms.front();
  return plan;
}

std::vector<Products::Algorithm> Products::find_algorithms(const Key& key, const Plan& plan,
                                                           int most) const {
  cublasLtMatmulPreference_t created = nullptr;
  check(library_.create_preference(&created), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(created, library_.destroy_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(library_.set_of_preference(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(algorithm_workspace(key).size()));
  // Parts of a sum meet in the workspace, in float, in a fixed order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.left_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.right_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.result_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.result_alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = library_.find_algorithms(
      handle_.get(), plan.operation.get(), plan.left.get(), plan.right.get(), plan.result.get(),
      plan.result.get(), preference.get(), most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> algorithms;
  for (const auto& each : std::span(found).first(static_cast<std::size_t>(count))) {
    if (each.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(each.algo);
  }
  return algorithms;
}

template <class A, class C>
ProductRest Products::multiply(cudaStream_t stream, const ProductSpans<A, C>& product) {
  Key key{.layout = layout_of(product),
          .factors = kType<A>,
          .result = kType<C>,
          .epilogue = epilogue_of(product),
          .adds = product.adds,
          .left_alignment = alignment_of(product.b),
          .right_alignment = alignment_of(product.a),
          .result_alignment = alignment_of(product.c),
          .multiprocessors = multiprocessors_};
  const std::span<float> sums = sums_workspace(key);
  const EpilogueMemory memory{
      .bias = sums.empty() ? static_cast<const void*>(product.bias) : sums.data(),
      .gelu_input = product.before_gelu != nullptr ? product.before_gelu : product.gelu_input};
  key.epilogue_alignment = std::min(alignment_of(memory.bias), alignment_of(memory.gelu_input));
  const float one = 1.0F, before = product.adds ? 1.0F : 0.0F;
  const std::span<std::byte> workspace = algorithm_workspace(key);
  const auto run = [&](const Plan& plan, const Algorithm& algorithm) {
    return library_.multiply(handle_.get(), plan.operation.get(), &one, product.b, plan.left.get(),
                             product.a, plan.right.get(), &before, product.c, plan.result.get(),
                             product.c, plan.result.get(), &algorithm, workspace.data(),
                             workspace.size(), stream);
  };
  auto place = plans_.find(key);
  if (place == plans_.end()) {
    place = plans_.emplace(key, make_plan(key, memory)).first;
    if (std::optional<Plan>& made = place->second; made && book_)
      settle(key, *made, [&](const Algorithm& each) { return run(*made, each); }, stream);
  }
  if (place->second) {
    set_memory(*place->second, memory);
    const cublasStatus_t status = run(*place->second, place->second->algorithm);
    if (!refuses(status)) {
      check(status, "cublasLtMatmul");
      return {.column_sums = sums};
    }
    place->second.reset();
  }
  if (!can_be_left_out(key.epilogue)) return {.all = true};
  ProductRest rest = multiply(stream, without_epilogue(product));
  rest.epilogue = !rest.all;
  return rest;
}

template ProductRest Products::multiply(cudaStream_t, const ProductSpans<float, float>&);
template ProductRest Products::multiply(cudaStream_t, const ProductSpans<Bf16, float>&);
template ProductRest Products::multiply(cudaStream_t, const ProductSpans<Bf16, Bf16>&);

}  // namespace tandem::cuda
