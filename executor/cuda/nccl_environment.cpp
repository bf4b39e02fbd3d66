// What NCCL, and CUDA for its sake, are told by the environment.

#include <cstdlib>

#include "executor/cuda/cuda.h"

namespace tandem {

void prepare_nccl() {
  // Kernels of several communicators on a GPU start in the order in which the host gave them.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  // One way to sum, whatever its size.
  setenv("NCCL_ALGO", "Ring", 0);
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  // Code that is loaded when it is first launched waits for all that runs, kernels that wait for
  // another device among it.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

}  // namespace tandem
