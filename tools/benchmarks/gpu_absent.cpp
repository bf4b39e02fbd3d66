// In place of gpu.cpp, where the build found no CUDA.

#include "executor/cuda/cuda.h"
#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

void bench_gpu(const Settings& /*settings*/, const Show& show) {
  show({"GPU: " + why_no_cuda(), {}});
}

void bench_gpu_gpt2(const Settings& settings, const Show& show) { bench_gpu(settings, show); }

void bench_gpu_stage(const Settings& settings, const Show& show) { bench_gpu(settings, show); }

}  // namespace tandem::benchmarks
