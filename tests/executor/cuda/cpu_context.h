#pragma once
// The context of GPU kernels on the CPU.

#include "executor/cuda/kernels/product.h"
#include "tests/executor/cuda/cpu_grid.h"

namespace tandem::cuda::testing {

/// As a GPU's context, with the portable product. `fuses`: which makes more along the way.
class CpuContext : public CpuGrid {
 public:
  explicit CpuContext(bool rounds, bool fuses = true)
      : CpuGrid(Order::shuffled), rounds_(rounds), fuses_(fuses) {}
  template <class C>
  void multiply(const ProductSpans<Bf16, C>& spans) {
    multiply_factors(spans);
  }
  void multiply(const ProductSpans<float, float>& spans) {
    if (rounds_) {
      multiply_factors(round_factors(*this, spans));
    } else {
      multiply_factors(spans);
    }
  }

 private:
  template <class A, class C>
  void multiply_factors(const ProductSpans<A, C>& spans) {
    if (fuses_) return product(*this, spans);
    product(*this, without_epilogue(spans));
    finish(*this, spans);
  }

  bool rounds_, fuses_;
};

}  // namespace tandem::cuda::testing
