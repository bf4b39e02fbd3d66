#pragma once
// The kernels of a GPU for the executor, on one stream: what is stored is float or bfloat16. What
// they compute with, besides their arguments, a context owns. Compiled by any compiler; kernels.cu
// holds what only nvcc can.

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include <cuda_runtime_api.h>

#include "core/base/units.h"
#include "executor/cpu/products.h"
#include "executor/cuda/kernels/fused_attention.h"
#include "executor/cuda/kernels/gpu_grid.h"
#include "executor/cuda/kernels/kernel_set.h"
#include "executor/cuda/kernels/products.h"
#include "executor/cuda/runtime/raii.h"

namespace tandem::cuda {

struct KernelSettings {
  /// Engine: auto or cublaslt, or portable, a slow kernel that needs no library. With bf16, factors
  /// of products are rounded as they are copied to the workspace; all else is float.
  cpu::ProductRequest products;
  /// Of partial sums, and of rounded factors: workspace_needed() in workspace.h.
  Bytes workspace = Bytes{64} << 20;
  std::shared_ptr<AlgorithmBook> algorithms = {};  // of the products; may be null
  int multiprocessors = 0;  // that the stream's kernels get of the GPU's; 0: all
  /// Of attention in bfloat16 that fused kernels compute, where there are some; else our own do.
  std::vector<AttentionShape> fused_attention = {};
};

/// One a stream, and used by one thread. Allocates all it ever needs when it is made, on the device
/// that is then current.
class KernelContext : public GpuGrid {
 public:
  /// Throws UsageError for an unknown engine, AbsentError without cublasLt, DeviceError.
  explicit KernelContext(cudaStream_t stream, const KernelSettings& settings = {});

  /// Memory of the device that it holds, and that one of these settings would.
  Bytes bytes() const { return memory_.size; }
  static Bytes bytes_of(const KernelSettings& settings);

  void multiply(const ProductSpans<float, float>& product);
  void multiply(const ProductSpans<Bf16, Bf16>& product);
  void multiply(const ProductSpans<Bf16, float>& product);

  // Whether fused kernels were queued for it.
  bool attend(const AttentionShape& shape, const AttentionForward<Bf16, float>& spans);
  bool attend_backward(const AttentionShape& shape, const AttentionBackward<Bf16, float>& spans);

 private:
  struct Memory {
    DeviceMemory first;
    Bytes size = 0;
  };
  static Memory allocate(const KernelSettings& settings);
  KernelContext(cudaStream_t stream, const KernelSettings& settings, Memory memory);
  template <class A, class C>
  void multiply_factors(const ProductSpans<A, C>& spans);

  Memory memory_;
  struct Attention {
    std::shared_ptr<const FusedAttention> plans;
    std::unique_ptr<FusedAttentionCalls> calls;
  };
  /// For a shape; null: plain kernels.
  const Attention* attention_for(const AttentionShape& shape) const;

  std::vector<Attention> attention_;
  bool rounds_;
  std::optional<Products> products_;  // none: the portable kernel
};

extern template class KernelSet<KernelContext, float>;
extern template class KernelSet<KernelContext, Bf16>;

template <class T>
  requires std::same_as<T, float> || std::same_as<T, Bf16>
using Kernels = KernelSet<KernelContext, T>;

static_assert(tandem::Kernels<Kernels<float>> && tandem::Kernels<Kernels<Bf16>>);

}  // namespace tandem::cuda
