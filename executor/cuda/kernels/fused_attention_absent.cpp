// In place of cuDNN's attention, where the build found no headers of its frontend.

#include "core/base/error.h"
#include "executor/cuda/kernels/fused_attention.h"

namespace tandem::cuda {
namespace {

constexpr const char* kWhy = "this build has no code for it (cuDNN, below, says why)";

}  // namespace

FoundAttention find_fused_attention(const AttentionShape& /*shape*/) { return {{}, kWhy}; }
FoundAttention plan_fused_attention(const AttentionShape& /*shape*/,
                                    const std::string& /*properties*/) {
  return {{}, kWhy};
}
std::string cudnn_version() { throw AbsentError(kWhy); }

}  // namespace tandem::cuda
