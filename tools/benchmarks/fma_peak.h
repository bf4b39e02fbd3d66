#pragma once
// The rate of fused multiply-adds that a core reaches with nothing else to do: what a training
// step's rate is a share of.

namespace tandem::benchmarks {

struct FmaPeak {
  double f32 = 0.0;   // GFLOP/s of one thread
  double bf16 = 0.0;  // products of bfloat16 summed in float; 0: the processor has none
};

/// Measured with the widest vectors that this processor has; 0 where that is unknown. Takes some
/// milliseconds; call it again and keep the best.
FmaPeak measure_fma_peak();

}  // namespace tandem::benchmarks
