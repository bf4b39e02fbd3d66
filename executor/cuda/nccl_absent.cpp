// In place of the transport over NCCL, where the build found no header of it.

#include "core/base/error.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/gpu_transport.h"

namespace tandem {

FoundLibrary find_nccl() {
  return {.why_absent = "this build has no code for it (NCCL, below, says why)"};
}

namespace cuda {

std::unique_ptr<GpuTransport> make_nccl_transport(CommunicatorPlans /*plans*/,
                                                  const Table<DeviceId, int>& /*gpus*/,
                                                  TransportNotices /*notices*/) {
  throw AbsentError(
      "transport nccl: this build has no code for it (tandem doctor says why); use --transport "
      "peer");
}

}  // namespace cuda
}  // namespace tandem
