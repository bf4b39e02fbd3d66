// In place of the loader of NCCL, where the build found no header of it.

#include "core/base/error.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/nccl.h"

namespace tandem {

FoundLibrary find_nccl() {
  return {.why_absent = "this build has no code for it (NCCL, below, says why)"};
}

namespace cuda {

Nccl& nccl() {
  throw AbsentError(
      "transport nccl: this build has no code for it (tandem doctor says why); use --transport "
      "peer");
}

}  // namespace cuda
}  // namespace tandem
