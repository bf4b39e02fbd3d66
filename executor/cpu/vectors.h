#pragma once
// on_widest_vectors(): the same loops compiled for several instruction sets, the widest of this
// processor run. Loops must be written so that their bits do not depend on it: what is fused is
// fused by name, and sums have a fixed order of lanes (arithmetic.h).

namespace tandem::cpu {

enum class Vectors { baseline, avx2, avx512 };

/// The widest that this processor has. Fused multiply-add comes with avx2 and avx512.
inline Vectors widest_vectors() {
#if defined(__x86_64__)
  static const Vectors widest = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return Vectors::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
    return Vectors::baseline;
  }();
  return widest;
#else
  return Vectors::baseline;
#endif
}

// For lambdas: [&]() TANDEM_LOOPS { … }. Inlined, a loop takes on its caller's instruction set.
#define TANDEM_LOOPS __attribute__((always_inline))

// Before a loop: no turn reads what an earlier one wrote. Of many arrays compilers do not check
// that themselves, and leave the loop as it is.
#if defined(__clang__)
#define TANDEM_INDEPENDENT_TURNS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_INDEPENDENT_TURNS _Pragma("GCC ivdep")
#endif

#if defined(__x86_64__)
#if defined(__clang__)
#define TANDEM_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl")]]
#else
#define TANDEM_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]]
#endif

template <class Work>
TANDEM_AVX512 auto run_avx512(const Work& work) {
  return work();
}
template <class Work>
[[gnu::target("avx2,fma")]] auto run_avx2(const Work& work) {
  return work();
}
#endif

/// Runs `work`, a lambda marked TANDEM_LOOPS.
template <class Work>
auto on_widest_vectors(const Work& work) {
#if defined(__x86_64__)
  switch (widest_vectors()) {
    case Vectors::avx512:
      return run_avx512(work);
    case Vectors::avx2:
      return run_avx2(work);
    case Vectors::baseline:
      break;
  }
#endif
  return work();
}

}  // namespace tandem::cpu
