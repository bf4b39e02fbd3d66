#include <chrono>

#include <immintrin.h>

#include "tools/benchmarks/fma_peak.h"

namespace tandem::benchmarks {

namespace {

constexpr int kTurns = 300'000;
constexpr int kChains = 12;  // independent sums: more than the latency of two units hides

// Written by hand, so that no compiler finds out that nobody wants the sums.
#define TANDEM_CHAINS(INSTRUCTION, SUMS, A, B)                                        \
  for (int turn = 0; turn < kTurns; ++turn) {                                         \
    _Pragma("GCC unroll 12") for (int chain = 0; chain < kChains; ++chain) {          \
      asm volatile(INSTRUCTION " %1, %2, %0" : "+v"((SUMS)[chain]) : "v"(A), "v"(B)); \
    }                                                                                 \
  }

[[gnu::target("avx512f")]] void run_avx512() {
  __m512 sums[kChains] = {};
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(1e-3F);
  TANDEM_CHAINS("vfmadd231ps", sums, a, b)
}

[[gnu::target("avx512f")]] void run_bf16() {
  __m512 sums[kChains] = {};
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(1e-3F);
  TANDEM_CHAINS("vdpbf16ps", sums, a, b)
}

[[gnu::target("avx2,fma")]] void run_avx2() {
  __m256 sums[kChains] = {};
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(1e-3F);
  TANDEM_CHAINS("vfmadd231ps", sums, a, b)
}

/// GFLOP/s of a loop whose instruction is that many operations.
double rate(void (*run)(), double operations) {
  const auto start = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return operations * kTurns * kChains / took.count() / 1e9;
}

}  // namespace

FmaPeak measure_fma_peak() {
  if (__builtin_cpu_supports("avx512f")) {
    const bool rounds = __builtin_cpu_supports("avx512bf16");
    return {.f32 = rate(run_avx512, 32), .bf16 = rounds ? rate(run_bf16, 64) : 0.0};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {.f32 = rate(run_avx2, 16), .bf16 = 0.0};
  return {};
}

}  // namespace tandem::benchmarks
