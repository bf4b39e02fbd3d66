// In place of gpu.cpp, where the build found no CUDA.

#include "executor/cuda/cuda.h"
#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

std::vector<Section> bench_gpu(const Settings& /*settings*/) {
  return {{"GPU: " + why_no_cuda(), {}}};
}

std::vector<Section> bench_gpu_gpt2(const Settings& settings) { return bench_gpu(settings); }

std::vector<Section> bench_gpu_stage(const Settings& settings) { return bench_gpu(settings); }

}  // namespace tandem::benchmarks
