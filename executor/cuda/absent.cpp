// In place of the folder's other files, where the build found no CUDA.

#include "core/base/error.h"
#include "executor/cuda/cuda.h"

namespace tandem {

std::string why_no_cuda() { return "this build has no code for it (CUDA, below, says why)"; }

FoundLibrary find_nccl() {
  return {.why_absent = "this build has no code for GPUs (CUDA, below, says why)"};
}

FoundLibrary find_cudnn() { return find_nccl(); }

std::unique_ptr<Trainer> make_cuda_trainer() {
  throw AbsentError("backend cuda: this build has no code for it; use --backend cpu");
}

MeasuredProfile measure_cuda_profile(ProfileRequest) {
  throw AbsentError("backend cuda: this build has no code for it; use --backend cpu");
}

}  // namespace tandem
