#pragma once
// Bodies of kernels as nobody should write them: each must be seen.

#include <cstdint>

namespace tandem::cuda::testing {

/// Threads read their neighbours' sums in the phase that makes them.
struct ForgetsABarrier {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    float* sums = block.template shared<float>(block.threads());
    block.each_thread([&](int thread) { sums[thread] = static_cast<float>(thread); });
    block.each_thread([&](int thread) {
      sums[thread] += sums[(thread + 1) % block.threads()];
      y[thread] = sums[thread];
    });
  }
};

/// All threads write one place.
struct WritesOnePlace {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    block.each_thread([&](int thread) { y[0] = static_cast<float>(thread); });
  }
};

/// Blocks add to one place: as with atomics, the order of addition is the order of blocks.
struct BlocksAddToOnePlace {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      if (thread == 0) y[0] += 1.0F / (1.0F + static_cast<float>(block.index()));
    });
  }
};

/// All threads write the same to one place: no order of them shows in any bit.
struct WritesTheSame {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    block.each_thread([&](int /*thread*/) { y[0] = 1.0F; });
  }
};

/// A thread reads what it may, but the phase behind overwrites it before all have.
struct ForgetsTheBarrierOfRead {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    float* place = block.template shared<float>(block.threads());
    block.each_thread([&](int thread) { place[thread] = 1.0F; });
    const float seen = place[0];
    block.each_thread([&](int thread) { place[thread] = seen + y[thread]; });
  }
};

}  // namespace tandem::cuda::testing
