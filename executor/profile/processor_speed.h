#pragma once
// measure_processor(): what a thread of this machine computes and moves, as achieved.

namespace tandem {

struct ProcessorSpeed {
  double product_flops_per_s = 0.0;  // of float32 products of matrices
  double memory_bytes_per_s = 0.0;   // read and written
};

/// By one thread, in some tenths of a second.
ProcessorSpeed measure_processor();

}  // namespace tandem
