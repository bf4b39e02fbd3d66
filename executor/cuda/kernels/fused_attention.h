#pragma once
// Causal attention in bfloat16 by cuDNN's fused kernels, which read each key from far memory once a
// block of queries. Forward is one kernel; backward is deterministic, for which cuDNN works in
// memory of the caller's. cuDNN is found when it is first needed (cudnn.h): where there is none, or
// none of its kernels takes the shape, attention_forward.h and attention_backward.h stand in.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include "core/base/units.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"

namespace tandem::cuda {

/// Calls of it, queued on one stream. Used by one thread.
class FusedAttentionCalls {
 public:
  virtual ~FusedAttentionCalls() = default;
  // `workspace`: FusedAttention::workspace() bytes, aligned as cudaMalloc() does. All spans begin
  // at a multiple of 16 bytes. Throw DeviceError.
  virtual void forward(const AttentionForward<Bf16, float>& spans, std::byte* workspace) = 0;
  virtual void backward(const AttentionBackward<Bf16, float>& spans, std::byte* workspace) = 0;
};

/// cuDNN's plans for one shape and one kind of GPU. Shared by threads.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual const AttentionShape& shape() const = 0;
  virtual Bytes workspace() const = 0;
  /// On a stream of the current device, which is of the kind that the plans are for.
  virtual std::unique_ptr<FusedAttentionCalls> on(cudaStream_t stream) const = 0;
};

/// What there is for a shape: plans, or why there are none.
struct FoundAttention {
  std::shared_ptr<const FusedAttention> plans;
  std::string why_absent;
};

/// For the current device. The first call for a shape takes about a second; then it is kept.
FoundAttention find_fused_attention(const AttentionShape& shape);

/// The same for the kind of GPU that cuDNN describes so, in JSON (DEVICEPROP descriptor): needs no
/// GPU, and what it makes can't be called here.
FoundAttention plan_fused_attention(const AttentionShape& shape, const std::string& properties);

/// cuDNN's version, such as "9.14.0". Throws AbsentError where there is none that will do.
std::string cudnn_version();

}  // namespace tandem::cuda
