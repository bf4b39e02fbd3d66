#pragma once
// Products of matrices by cublasLt: of float factors in float (no TF32), or of bfloat16 ones, with
// sums in float. What is made along the way of a product (product.h) its epilogue makes where the
// library has an algorithm that does; else kernels of their own, for that shape from then on.
//
// How a product is computed is chosen once for its shape, strides, types, alignment and the
// multiprocessors it gets, and kept: so equal products give equal bits for the life of the process.
// Algorithms whose parts of a sum are added as they come are left out. Taken is what a book knows,
// or times; else what the library names first.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "executor/cuda/kernels/algorithm_book.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/cublaslt.h"
#include "executor/cuda/kernels/product_layout.h"

namespace tandem::cuda {

/// What of a product its caller has to do.
struct ProductRest {
  bool all = false;       // the library has no algorithm for it
  bool epilogue = false;  // finish()
  std::span<const float> column_sums =
      {};  // to be added to the product's; valid until the next one
};

/// How long what `run` queues takes on the stream.
using ProductTimer = Duration (*)(cudaStream_t stream, const std::function<void()>& run);
Duration time_by_events(cudaStream_t stream, const std::function<void()>& run);

/// Of the device that is current when it is made. Used by one thread, for one stream: products
/// share the workspace.
class Products {
 public:
  /// `workspace`: memory of the device, aligned as cudaMalloc() does. Throws AbsentError without
  /// the library, DeviceError where it fails. `book` may be null: what the library names first.
  /// `multiprocessors`: what kernels on the stream get of the GPU's; 0: all.
  explicit Products(std::span<std::byte> workspace, const CublasLt& library = cublaslt(),
                    std::shared_ptr<AlgorithmBook> book = {}, ProductTimer timer = time_by_events,
                    int multiprocessors = 0);

  /// Queues a product of what `A` is, float or Bf16, into what `C` is.
  template <class A, class C>
  ProductRest multiply(cudaStream_t stream, const ProductSpans<A, C>& product);

 private:
  template <class Handle>
  using Destroy = cublasStatus_t (*)(Handle*);
  template <class Handle>
  using Owned = std::unique_ptr<Handle, Destroy<Handle>>;

  using Algorithm = cublasLtMatmulAlgo_t;
  /// Queues the product at hand.
  using Run = std::function<cublasStatus_t(const Algorithm&)>;

  /// All that an algorithm is chosen by.
  struct Key {
    ProductLayout layout;
    cudaDataType_t factors = CUDA_R_32F, result = CUDA_R_32F;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    bool adds = false;
    std::uintptr_t left_alignment = 0, right_alignment = 0, result_alignment = 0,
                   epilogue_alignment = 0;
    std::int32_t multiprocessors = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// What an epilogue reads or writes.
  struct EpilogueMemory {
    const void* bias = nullptr;  // sums of columns go there, too
    const void* gelu_input = nullptr;
  };
  struct Plan {
    Owned<cublasLtMatmulDescOpaque_t> operation;
    Owned<cublasLtMatrixLayoutOpaque_t> left, right, result;
    Algorithm algorithm = {};
  };

  void check(cublasStatus_t status, const char* call) const;
  Owned<cublasLtMatrixLayoutOpaque_t> make_layout(const ColumnMajor& matrix,
                                                  cudaDataType_t type) const;
  /// None where the library has no algorithm.
  std::optional<Plan> make_plan(const Key& key, const EpilogueMemory& memory) const;
  /// As many as asked for, the one expected to be the quickest first.
  std::vector<Algorithm> find_algorithms(const Key& key, const Plan& plan, int most) const;
  // In product_choice.cpp:
  /// Takes the algorithm that the book has for the product.
  void settle(const Key& key, Plan& plan, const Run& run, cudaStream_t stream) const;
  std::optional<ProductAlgorithm> measure(const Key& key, const Plan& plan, const Run& run,
                                          cudaStream_t stream) const;
  /// None where the library does not take it.
  std::optional<Algorithm> accept(const Key& key, const Plan& plan,
                                  const ProductAlgorithm& known) const;
  std::string library_name() const;
  void set_memory(const Plan& plan, const EpilogueMemory& memory) const;
  /// Of the workspace what algorithms may use, and behind it sums of columns.
  std::span<std::byte> algorithm_workspace(const Key& key) const;
  std::span<float> sums_workspace(const Key& key) const;

  const CublasLt& library_;
  Owned<cublasLtContext> handle_;
  std::span<std::byte> workspace_;
  std::shared_ptr<AlgorithmBook> book_;
  ProductTimer timer_;
  const std::int32_t multiprocessors_;
  std::map<Key, std::optional<Plan>> plans_;
};

extern template ProductRest Products::multiply(cudaStream_t, const ProductSpans<float, float>&);
extern template ProductRest Products::multiply(cudaStream_t, const ProductSpans<Bf16, float>&);
extern template ProductRest Products::multiply(cudaStream_t, const ProductSpans<Bf16, Bf16>&);

}  // namespace tandem::cuda
