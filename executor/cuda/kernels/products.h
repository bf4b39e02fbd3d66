#pragma once
// Products of matrices by cublasLt: of float factors in float (no TF32), or of bfloat16 ones, with
// sums in float.
//
// How a product is computed is chosen once for its shape, strides, types and alignment, and kept:
// so equal products give equal bits for the life of the process. Algorithms whose parts of a sum
// are added as they come are left out.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include <cuda_runtime_api.h>

#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/cublaslt.h"
#include "executor/cuda/kernels/product_layout.h"

namespace tandem::cuda {

/// Of the device that is current when it is made. Used by one thread, for one stream: products
/// share the workspace.
class Products {
 public:
  /// `workspace`: memory of the device, aligned as cudaMalloc() does. Throws AbsentError without
  /// the library, DeviceError where it fails.
  explicit Products(std::span<std::byte> workspace);

  /// Queues a product of what `A` is: float or Bf16.
  template <class A>
  void multiply(cudaStream_t stream, const ProductSpans<A, float>& product);

 private:
  template <class Handle>
  using Destroy = cublasStatus_t (*)(Handle*);
  template <class Handle>
  using Owned = std::unique_ptr<Handle, Destroy<Handle>>;

  /// All that an algorithm is chosen by.
  struct Key {
    ProductLayout layout;
    cudaDataType_t factors = CUDA_R_32F;
    bool adds = false, has_bias = false;
    std::uintptr_t left_alignment = 0, right_alignment = 0, result_alignment = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Plan {
    Owned<cublasLtMatmulDescOpaque_t> operation;
    Owned<cublasLtMatrixLayoutOpaque_t> left, right, result;
    cublasLtMatmulAlgo_t algorithm = {};
  };

  void check(cublasStatus_t status, const char* call) const;
  Owned<cublasLtMatrixLayoutOpaque_t> make_layout(const ColumnMajor& matrix,
                                                  cudaDataType_t type) const;
  Plan make_plan(const Key& key, const float* bias) const;
  cublasLtMatmulAlgo_t choose_algorithm(const Key& key, const Plan& plan) const;
  void set_bias(const Plan& plan, const float* bias) const;

  const CublasLt& library_;
  Owned<cublasLtContext> handle_;
  std::span<std::byte> workspace_;
  std::map<Key, Plan> plans_;
};

extern template void Products::multiply(cudaStream_t, const ProductSpans<float, float>&);
extern template void Products::multiply(cudaStream_t, const ProductSpans<Bf16, float>&);

}  // namespace tandem::cuda
