#pragma once
// How kernels run on the machine of recorder.h: queued on their stream as a launch of CUDA's, and
// when it comes there on the CPU, a loop over blocks and threads. In place of gpu_grid.cuh.

#include <cstddef>
#include <span>
#include <typeinfo>

#include "executor/cuda/kernels/gpu_grid.h"
#include "executor/cuda/runtime/check.h"
#include "tests/executor/cuda/cpu_grid.h"
#include "tests/executor/cuda/recorded/recorder.h"

namespace tandem::cuda {

/// Its address is a kernel's identity.
template <class Body>
inline constexpr char kKernel = 0;

/// As gpu_grid.cuh has it, call for call.
template <class Body>
[[gnu::noinline, gnu::used]] void GpuGrid::run(const GridShape& shape, const Body& body) {
  if (shape.blocks == 0) return;
  constexpr std::int64_t kUnasked = 48 << 10;
  if (shape.shared_bytes > kUnasked) {
    check(cudaFuncSetAttribute(&kKernel<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          "cudaFuncSetAttribute: shared memory of a block");
  }
  recorded::recorder().call(
      "cudaLaunchKernel", recorded::kSubmits | recorded::kNeedsDevice,
      [&](recorded::Recorder& machine) {
        return machine.launch({.kernel = &kKernel<Body>,
                               .name = typeid(Body).name(),
                               .stream = stream_,
                               .shared_bytes = static_cast<std::size_t>(shape.shared_bytes),
                               .arguments = std::as_bytes(std::span(&body, 1)),
                               .run = [shape, body] {
                                 testing::CpuGrid(testing::Order::ascending).run(shape, body);
                               }});
      });
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace tandem::cuda
