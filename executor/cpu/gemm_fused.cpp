#include "executor/cpu/gemm.h"
#include "executor/cpu/gemm_blocked.h"

namespace tandem::cpu {
namespace {

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] void run_avx2(const Gemm<T>& g) {
  blocked::run<T, blocked::Blocking{.bytes = 32, .rows = 6, .vectors = 2, .inner = 256}>(g);
}

template <class T>
[[gnu::target("avx512f")]] void run_avx512(const Gemm<T>& g) {
  blocked::run<T, blocked::Blocking{
                      .bytes = 64, .rows = 8, .vectors = 2, .inner = 256, .columns = 512}>(g);
}
#else
template <class T>
void run_native(const Gemm<T>& g) {
  blocked::run<T, blocked::Blocking{.bytes = 16, .rows = 6, .vectors = 2}>(g);
}
#endif

}  // namespace

template <class T>
std::vector<GemmVariant<T>> fused_variants() {
  std::vector<GemmVariant<T>> variants;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    variants.push_back({"avx2", true, run_avx2<T>});
  if (__builtin_cpu_supports("avx512f")) variants.push_back({"avx512", true, run_avx512<T>});
#elif defined(__ARM_FEATURE_FMA)
  variants.push_back({"native", true, run_native<T>});
#endif
  return variants;
}

template std::vector<GemmVariant<float>> fused_variants<float>();
template std::vector<GemmVariant<double>> fused_variants<double>();

}  // namespace tandem::cpu
