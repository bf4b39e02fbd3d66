#pragma once
// How fast the kernels of a GPU are, beside what the same GPU does at best.

#include <string>
#include <string_view>

#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

/// What a GPU did at best, in this process.
struct GpuPeaks {
  double bf16 = 0.0, f32 = 0.0;  // of products, FLOP/s; sums in float in both cases
  double copy = 0.0;             // bytes/s, those read and those written
};

/// FLOP/s beside a peak of such.
Row beside_peak(std::string what, double rate, double peak, std::string_view peak_of = "peak");

/// On the current device. Throws AbsentError without cublasLt, DeviceError.
GpuPeaks measure_gpu_peaks(const Settings& settings);

/// Products, what memory bounds, attention, launches: of a layer of width 2048, on the first of the
/// `gpus`, by their name.
void bench_gpu_kernels(const Settings& settings, const std::string& gpus, const Show& show);

}  // namespace tandem::benchmarks
